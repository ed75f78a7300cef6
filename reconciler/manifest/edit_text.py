"""Setting a model's memory in its manifest file: only the lines it stands on differ afterwards.

ruamel says where everything stands; the text itself is cut and joined, because any dumper would lay out anew what the
user laid out. What other parts of the file share through an anchor is not touched: it would change them too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

#: An anchor or a tag before a value.
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")
#: What follows the key of an entry whose value is an alias.
_ALIAS: Final = re.compile(r"\s*:\s+\*[^\s,\]}]+")
_BLOCK_SCALARS: Final = ("|", ">")


class EditError(Exception):
    """The text cannot be edited safely; the message begins with `file:line`."""


@dataclass(frozen=True, slots=True)
class _Splice:
    """Characters `start` to `end` of the text become `text`."""

    start: int
    end: int
    text: str


def set_memory(text: str, file: str, model: str, values: Mapping[str, str]) -> str:
    """Return a manifest file's text with `models.MODEL.memory` holding `values` (`{"steady": "4.3GiB"}`).

    Everything else stays as it is, to the byte: comments, order, quotes, blank lines, anchors, line ends. `file` is its
    name in messages. Raises EditError where the value is shared by an anchor or a merge, or comes from the environment;
    KeyError if the file does not hold the model.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    body = text[len(mark) :]
    for key, value in values.items():
        body = _Editor(body, file, model).set(key, value)
    return mark + body


class _Editor:
    """One edit of one text: positions are those of that text."""

    def __init__(self, text: str, file: str, model: str) -> None:
        self.text = text
        self.file = file
        self.model = model
        try:
            self.root = YAML(typ="rt", pure=True).compose(text)
        except YAMLError as error:
            raise EditError(f"{file}: it is no YAML: {str(error).splitlines()[0]}") from error
        self.uses = _count_uses(self.root)

    def set(self, key: str, value: str) -> str:
        """Return the text with `memory.KEY` of the model set to `value`."""
        models = _own(self.root, "models")
        entry = _own(models[1], self.model) if models else None
        if models is None or entry is None:
            raise KeyError(self.model)
        self._unshared(models[1], "models")
        self._unshared(entry[1], self.model)
        splice = self._in_model(entry[1], key, value)
        return self.text[: splice.start] + splice.text + self.text[splice.end :]

    def _in_model(self, model: Node, key: str, value: str) -> _Splice:
        memory = _own(model, "memory")
        if memory is None:
            self._not_merged(model, "memory")
            return self._add(model, ("memory", key), value)
        self._unshared(memory[1], f"{self.model}.memory")
        found = _own(memory[1], key)
        if found is None:
            self._not_merged(memory[1], key)
            return self._add(memory[1], (key,), value)
        self._unshared(found[1], f"{self.model}.memory.{key}")
        return self._replace(found[1], f"{self.model}.memory.{key}", value)

    # -- what is refused ------------------------------------------------------------------------------------------

    def _unshared(self, node: Node, what: str) -> None:
        if self.uses[id(node)] > 1:
            raise EditError(
                f"{self._place(node)}: {what} is shared through an anchor, so that writing it would change other"
                " models too; give this model a `memory:` of its own"
            )

    def _not_merged(self, node: Node, key: str) -> None:
        for merged in _merged(node):
            if (found := _any(merged, key)) is not None:
                raise EditError(
                    f"{self._place(found)}: `{key}` of {self.model} comes from here through `<<`, and others may take"
                    f" it too; give this model a `{key}:` of its own"
                )

    def _place(self, node: Node) -> str:
        return f"{self.file}:{node.start_mark.line + 1}"

    # -- how it is written ----------------------------------------------------------------------------------------

    def _replace(self, node: Node, what: str, value: str) -> _Splice:
        """Put `value` in place of a scalar; its quotes, anchor and tag stay."""
        if not isinstance(node, ScalarNode) or node.style in _BLOCK_SCALARS:
            raise EditError(f"{self._place(node)}: {what} is not written as one plain or quoted value")
        if "${env:" in node.value:
            raise EditError(f"{self._place(node)}: {what} is {node.value}: set that variable instead")
        start, end = node.start_mark.index, node.end_mark.index
        start += len(_PROPERTIES.match(self.text[start:end]).group())  # type: ignore[union-attr] # it may match nothing
        quote = node.style if node.style in ("'", '"') else ""
        return _Splice(start, end, f"{quote}{value}{quote}")

    def _add(self, mapping: Node, path: tuple[str, ...], value: str) -> _Splice:
        """Add a key (and one below it) to a mapping, in the style it is written in."""
        if not isinstance(mapping, MappingNode):
            raise EditError(f"{self._place(mapping)}: {self.model} is not written as a mapping")
        if mapping.flow_style:
            return self._add_to_flow(mapping, path, value)
        pair, first = _pair(path, value), mapping.value[0][0].start_mark
        indent = " " * first.column
        ends = [end for key, node in mapping.value if (end := self._end(key, node)) is not None]
        if not ends:  # every value is a block of text: before the first of them is the one sure place
            start = first.index - first.column
            return _Splice(start, start, f"{indent}{pair}{self._line_end_at(start)}")
        at = self._end_of_line(max(ends))
        return _Splice(at, at, f"{self._line_end_at(at)}{indent}{pair}")

    def _add_to_flow(self, mapping: MappingNode, path: tuple[str, ...], value: str) -> _Splice:
        start, close = mapping.start_mark.index, mapping.end_mark.index - 1
        if not mapping.value:
            return _Splice(start, close, self.text[start:close].rstrip() + _pair(path, value))
        ends = [self._end(key, node) for key, node in mapping.value]
        at = max(end for end in ends if end is not None)
        # In quotes where the file has them, as JSON does.
        return _Splice(at, at, f", {_pair(path, value, mapping.value[0][0].style or '')}")

    def _end(self, key: Node, value: Node) -> int | None:
        """Return the index just behind an entry; None = no line can safely be put there."""
        if value.start_mark.index < key.start_mark.index:  # an alias: the node stands where its anchor is
            found = _ALIAS.match(self.text, key.end_mark.index)
            return found.end() if found else None
        if isinstance(value, ScalarNode) or (isinstance(value, CollectionNode) and value.flow_style):
            end: int = value.end_mark.index
            return None if isinstance(value, ScalarNode) and value.style in _BLOCK_SCALARS else end
        last = value.value[-1] if value.value else None
        if isinstance(last, tuple):
            return self._end(*last)
        return None if last is None else self._end(key, last)

    # -- lines ----------------------------------------------------------------------------------------------------

    def _end_of_line(self, index: int) -> int:
        """Return where the line of `index` ends, its comment included, its line end not."""
        found = re.compile(r"[\r\n]").search(self.text, index)
        return found.start() if found else len(self.text)

    def _line_end_at(self, index: int) -> str:
        """Return the kind of line end that stands at `index`, else the first of the file."""
        found = re.compile(r"\r\n|\n|\r").match(self.text, index) or re.search(r"\r\n|\n|\r", self.text)
        return found.group() if found else "\n"


def _count_uses(root: Node | None) -> dict[int, int]:
    """Return how often each node is referred to: more than once = through an alias."""
    uses: dict[int, int] = {}
    waiting: list[Any] = [root] if root is not None else []
    while waiting:
        node = waiting.pop()
        uses[id(node)] = uses.get(id(node), 0) + 1
        if uses[id(node)] > 1 or isinstance(node, ScalarNode):
            continue
        for item in node.value:
            waiting.extend(item if isinstance(item, tuple) else (item,))
    return uses


def _own(node: Node | None, key: str) -> tuple[Node, Node] | None:
    """Return key and value of a mapping's own entry, or None."""
    if not isinstance(node, MappingNode):
        return None
    return next(((k, v) for k, v in node.value if isinstance(k, ScalarNode) and k.value == key), None)


def _merged(node: Node) -> Iterator[Node]:
    """Yield the mappings that are merged into `node` by `<<`."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and key.value == "<<" and not key.style:
                yield from value.value if not isinstance(value, MappingNode) else (value,)


def _any(node: Node, key: str) -> Node | None:
    """Return the value of `key`, be it merged itself."""
    if own := _own(node, key):
        return own[1]
    return next((found for merged in _merged(node) if (found := _any(merged, key)) is not None), None)


def _pair(path: tuple[str, ...], value: str, quote: str = "") -> str:
    """Return `steady: 8GiB`, or `memory: {steady: 8GiB}` for a path of two."""
    rest = f"{{{_pair(path[1:], value, quote)}}}" if len(path) > 1 else f"{quote}{value}{quote}"
    return f"{quote}{path[0]}{quote}: {rest}"
