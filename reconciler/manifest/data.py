"""From the tree to plain values: expansions done, commands split, and nothing converted on the quiet."""

from collections.abc import Mapping
from typing import Final

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.expand import ExpandError, expand
from reconciler.manifest.problems import Problems
from reconciler.manifest.scalars import NOTHING, Expanded, Nothing, OddNumber, kind, resolve
from reconciler.manifest.tree import Entry, Map, Mark, Node, Scalar, Seq, nullable
from reconciler.manifest.words import SplitError, split

Data = str | int | float | bool | OddNumber | Nothing | list["Data"] | dict[str, "Data"]


#: Stands in a list for an item that has been refused, so that the items after it keep their places.
LOST: Final = "?"


class Reader:
    """Turns nodes into values. What cannot be turned is noted and left out, so that it is reported once."""

    def __init__(self, environ: Mapping[str, str], problems: Problems) -> None:
        self.environ = environ
        self.problems = problems
        self._nullable: frozenset[int] = frozenset()

    def root(self, root: Map) -> dict[str, Data]:
        """Return the values of a whole manifest."""
        self._nullable = frozenset(id(node) for node in nullable(root))
        return self.mapping(root)

    def read(self, node: Node) -> Data | None:
        """Return the value of a node, or None if it has none (noted)."""
        if isinstance(node, Scalar):
            return self.scalar(node)
        if isinstance(node, Seq):
            return [LOST if (value := self.read(item)) is None else value for item in node.items]
        return self.mapping(node)

    def mapping(self, node: Map) -> dict[str, Data]:
        """Return the values of a mapping by key."""
        result: dict[str, Data] = {}
        for name, entry in node.items.items():
            if self.key(entry.key) and (value := self.read(entry.value)) is not None:
                result[name] = value
        return result

    def key(self, key: Scalar) -> bool:
        """Tell whether a key is text; note it otherwise."""
        what = kind(key.value) if key.plain else None
        if what:
            self.problems.add(
                key.mark,
                "quote-it",
                f"the key {key.value or '(nothing)'} is {what} in YAML, not text",
                f'quote it: "{key.value}"',
            )
        return what is None

    def scalar(self, node: Scalar) -> Data | None:
        """Return a scalar's value: by YAML 1.2 if it is plain, else its text."""
        if node.plain:
            value = resolve(node.value)
            if not isinstance(value, str):
                if value is None and id(node) in self._nullable:
                    return NOTHING
                if value is None:
                    self.problems.add(
                        node.mark,
                        "empty-value",
                        "there is no value here",
                        'give one, or delete the key; for the text "~" or "null", or an empty one, use quotes',
                    )
                return value
        return self.text(node, node.value)

    def text(self, node: Scalar, text: str) -> str | None:
        """Return a text with its expansions replaced, or None after noting why that cannot be."""
        if "\0" in text:
            self.problems.add(
                node.mark, "invisible-character", "U+0000 NUL cannot be part of a value", "delete it"
            )
            return None
        if "${env:" not in text:
            return text
        try:
            result = expand(text, self.environ)
        except ExpandError as error:
            self.problems.add(_inside(node, error.offset), "expansion", error.message, error.hint)
            return None
        if "\0" in result:
            self.problems.add(node.mark, "invisible-character", "the variable's value contains U+0000 NUL")
            return None
        return Expanded(result) if result != text else result


def with_split_command(model: Node, problems: Problems) -> Node:
    """Return a model whose `command`, if written as one text, is a list of words (each at the text's place).

    Splitting comes before expansion, so what a variable holds stays one word.
    """
    entry = model.items.get("command") if isinstance(model, Map) else None
    if not isinstance(model, Map) or entry is None or not isinstance(entry.value, Scalar):
        return model
    node = entry.value
    if node.plain and kind(node.value):
        return model
    try:
        words = split(node.value)
    except SplitError as error:
        mark = _line_inside(node, error.line)
        cut = node.plain and "#" in mark.file.line(node.end[0])[node.end[1] - 1 :]
        hint = (
            "YAML takes # as a comment here: write `command: |` and the text on the next line"
            if cut
            else error.hint
        )
        problems.add(mark, "command", error.message, hint)
        words = [LOST]
    if not words:
        problems.add(node.mark, "command", "the command is empty", "name the program to start")
        words = [LOST]
    items: list[Node] = [Scalar(word, False, node.mark, node.end) for word in words]
    command = Seq(node.mark, items, len(items) + 1)
    return Map(model.mark, {**model.items, "command": Entry(entry.key, command, entry.merged)}, model.weight)


def shown_or_hidden(node: Scalar, secret: bool) -> str:
    """Return how a message may call a scalar: as written, or not at all."""
    return "this value" if secret else quoted(node.value) if not node.plain else node.value


def _inside(node: Scalar, offset: int) -> Mark:
    """Return the place `offset` characters into a scalar; its beginning where that cannot be told."""
    line = node.mark.file.line(node.mark.line)
    col = line.find(node.value, node.mark.col - 1)
    if col < 0 or node.end[0] != node.mark.line:
        return node.mark
    return Mark(node.mark.file, node.mark.line, col + 1 + offset)


def _line_inside(node: Scalar, line: int) -> Mark:
    """Return the source line of a line within a block scalar; its beginning for other styles."""
    first = node.mark.file.line(node.mark.line)[node.mark.col - 1 :].lstrip()
    if not first.startswith("|"):
        return node.mark
    number = node.mark.line + 1 + line
    text = node.mark.file.line(number)
    return Mark(node.mark.file, number, len(text) - len(text.lstrip()) + 1)
