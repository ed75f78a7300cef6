"""The comments of a file, and which model each belongs to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.manifest.tree import Map, Node, Scalar, Seq, SourceFile

_BLOCK: Final = ("|", ">")


@dataclass(frozen=True, slots=True)
class Comment:
    """One line of comment, without its `#`. `key` is what stands before it on its line, if anything does."""

    line: int
    col: int
    text: str
    key: str = ""


@dataclass(slots=True)
class Belonging:
    """Comments by what they are about."""

    #: Before the first key of the file.
    head: list[Comment] = field(default_factory=list)
    above: dict[str, list[Comment]] = field(default_factory=dict)
    inside: dict[str, list[Comment]] = field(default_factory=dict)
    #: Behind the last model, where models stand: mostly some that are commented out.
    tail: list[Comment] = field(default_factory=list)
    #: About other things.
    rest: list[Comment] = field(default_factory=list)

    def of(self, model: str) -> list[str]:
        """Return the texts of all comments about a model."""
        return [c.text for c in (*self.above.get(model, []), *self.inside.get(model, []))]


def find(root: Node, file: SourceFile) -> list[Comment]:
    """Return all comments outside of values, in order."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for scalar in _scalars(root, set()):
        for row, start, end in _lines(scalar):
            spans.setdefault(row, []).append((start, end))
    found = []
    for number, line in enumerate(file.text.replace("\r\n", "\n").split("\n"), 1):
        at = _begin(line, spans.get(number, []))
        if at is not None:
            before = line[:at].strip().lstrip("- ")
            found.append(
                Comment(number, at + 1, line[at + 1 :].removeprefix(" ").rstrip(), before.partition(":")[0])
            )
    return found


def _begin(line: str, spans: list[tuple[int, int]]) -> int | None:
    for at, char in enumerate(line):
        if char == "#" and (at == 0 or line[at - 1] in " \t") and not any(a <= at < b for a, b in spans):
            return at
    return None


def _lines(scalar: Scalar) -> Iterator[tuple[int, int, int]]:
    """Yield the lines a value covers with its first and last column (from 0, the last one not in it)."""
    (first, start), (last, end) = (scalar.mark.line, scalar.mark.col - 1), scalar.end
    block = scalar.mark.file.line(first)[start : start + 1] in _BLOCK
    for line in range(first, last + 1):
        if block and line == first:
            continue  # what follows a `|` can only be a comment
        yield line, start if line == first else 0, (end - 1 if line == last else 1 << 30)


def _scalars(node: Node, seen: set[int]) -> Iterator[Scalar]:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Seq):
        for item in node.items:
            yield from _scalars(item, seen)
    else:
        for entry in node.items.values():
            yield from _scalars(entry.key, seen)
            yield from _scalars(entry.value, seen)


def in_commands(scalar: Scalar) -> list[Comment]:
    """Return the comment lines in a command's own text, which llama-swap leaves out before it splits it."""
    found = []
    for number in range(scalar.mark.line, scalar.end[0] + 1):
        line = scalar.mark.file.line(number)
        text = line.lstrip()
        if number > scalar.mark.line and text.startswith("#") and text.strip() in scalar.value:
            found.append(Comment(number, len(line) - len(text) + 1, text[1:].removeprefix(" ").rstrip()))
    return found


def belonging(root: Map, comments: list[Comment], inner: Mapping[str, list[Comment]]) -> Belonging:
    """Sort comments by model. `inner` are those in the commands of models."""
    result = Belonging(inside={name: list(found) for name, found in inner.items()})
    first = min((entry.key.mark.line for entry in root.items.values()), default=1)
    blocks = _blocks(root)
    start = root.items["models"].key.mark.line if "models" in root.items else 0
    for comment in comments:
        if comment.line < first:
            result.head.append(comment)
            continue
        place = _place(comment, blocks, start)
        if place is None and _trails(comment, blocks, root):
            result.tail.append(comment)
        elif place is None:
            result.rest.append(comment)
        else:
            where, name = place
            (result.above if where == "above" else result.inside).setdefault(name, []).append(comment)
    for found in result.inside.values():
        found.sort(key=lambda c: c.line)
    return result


@dataclass(frozen=True, slots=True)
class _Block:
    name: str
    line: int
    col: int
    last: int


def _blocks(root: Map) -> list[_Block]:
    models = root.items["models"].value if "models" in root.items else None
    if not isinstance(models, Map):
        return []
    return [
        _Block(name, entry.key.mark.line, entry.key.mark.col, max(_end(entry.value), entry.key.mark.line))
        for name, entry in models.items.items()
        if not entry.merged
    ]


def _end(node: Node) -> int:
    if isinstance(node, Scalar):
        line, col = node.end
        return line - 1 if col == 1 else line
    children = node.items if isinstance(node, Seq) else [entry.value for entry in node.items.values()]
    own = [child for child in children if child.mark.line >= node.mark.line]
    return max((_end(child) for child in own), default=node.mark.line)


def _trails(comment: Comment, blocks: list[_Block], root: Map) -> bool:
    """Tell whether a comment stands behind the last model and before whatever follows the models."""
    if not blocks or comment.line <= blocks[-1].last or comment.col < blocks[-1].col or comment.key:
        return False
    following = [
        entry.key.mark.line for entry in root.items.values() if entry.key.mark.line > blocks[-1].line
    ]
    return comment.line < min(following, default=comment.line + 1)


def _place(comment: Comment, blocks: list[_Block], start: int) -> tuple[str, str] | None:
    """Return the model that a comment is about: within its lines, or before it, but behind `models:`."""
    before = [block for block in blocks if block.line <= comment.line]
    after = [block for block in blocks if block.line > comment.line]
    if before:
        last = before[-1]
        if comment.line <= last.last or (comment.col > last.col and not comment.key):
            return ("inside", last.name)
    if after and comment.line > start and not comment.key:
        return ("above", after[0].name)
    return None
