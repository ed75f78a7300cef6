"""YAML as a tree that remembers where everything was written."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: What is said of an API key and may be shown.
KEY_SETTINGS: Final = frozenset({"scopes", "priority"})
_KEY_SOURCES: Final = frozenset({"file", "env"})


@dataclass(slots=True, eq=False)
class SourceFile:
    """One file of the manifest. `name` is what people see; relative paths in it start at `directory`."""

    name: str
    directory: Path
    text: str = ""
    _lines: list[str] | None = None

    def line(self, number: int) -> str:
        """Return a source line by its number (from 1), or nothing if there is no such line."""
        if self._lines is None:
            self._lines = self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""


@dataclass(slots=True, frozen=True)
class Mark:
    """A place in a file; line and column count from 1."""

    file: SourceFile
    line: int
    col: int

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}:{self.col}"


@dataclass(slots=True, eq=False)
class Scalar:
    """A scalar as written. Only a plain one (unquoted, untagged) can be anything but a string."""

    value: str
    plain: bool
    mark: Mark
    #: Line and column (from 1) just behind it.
    end: tuple[int, int]
    weight: int = 1


@dataclass(slots=True, eq=False)
class Seq:
    """A list."""

    mark: Mark
    items: "list[Node]" = field(default_factory=list)
    weight: int = 1


@dataclass(slots=True, eq=False)
class Entry:
    """One key of a mapping with its value. `merged` = it came from a `<<` and gives way to a key written here."""

    key: Scalar
    value: "Node"
    merged: bool = False


@dataclass(slots=True, eq=False)
class Map:
    """A mapping: each key once, merge keys already applied."""

    mark: Mark
    items: dict[str, Entry] = field(default_factory=dict)
    weight: int = 1


Node = Scalar | Seq | Map


def find(node: Node, path: tuple[str | int, ...]) -> tuple[Node, Scalar | None, int]:
    """Walk down `path` as far as it goes; return the last node, its key, and how many steps were possible."""
    key: Scalar | None = None
    for depth, step in enumerate(path):
        if isinstance(node, Map) and str(step) in node.items:
            entry = node.items[str(step)]
            node, key = entry.value, entry.key
        elif isinstance(node, Seq) and isinstance(step, int) and step < len(node.items):
            node, key = node.items[step], None
        else:
            return node, key, depth
    return node, key, len(path)


#: Where a null is a value: a gate that is removed, and a header that only has to be there. `*` = any key or item.
_NULLABLE: Final = (("gateway", "gates", "*"), ("virtual", "*", "rules", "*", "when", "header", "*"))


def nullable(root: Node) -> Iterator[Node]:
    """Yield the nodes that may be null."""
    for path in _NULLABLE:
        nodes: list[Node] = [root]
        for step in path:
            nodes = [child for node in nodes for child in _children(node, step)]
        yield from nodes


def _children(node: Node, step: str) -> list[Node]:
    if isinstance(node, Seq):
        return node.items if step == "*" else []
    if isinstance(node, Map):
        return [entry.value for name, entry in node.items.items() if step in ("*", name)]
    return []


def secret_scalars(node: Node, inside: bool = False, seen: set[int] | None = None) -> Iterator[Scalar]:
    """Yield the scalars that no message may repeat: values of `env`, and written `api_keys`."""
    seen = set() if seen is None else seen
    if isinstance(node, Scalar):
        if inside:
            yield node
        return
    if id(node) in seen and not inside:
        return
    seen.add(id(node))
    if isinstance(node, Seq):
        for item in node.items:
            yield from secret_scalars(item, inside, seen)
        return
    for name, entry in node.items.items():
        harmless = inside and name in KEY_SETTINGS
        secret = name in ("env", "api_keys") and not _names_a_source(name, entry.value)
        yield from secret_scalars(entry.value, (inside and not harmless) or secret, seen)


def _names_a_source(name: str, value: Node) -> bool:
    """Tell whether keys are said to be elsewhere. What is misspelt here may be a key itself."""
    return name == "api_keys" and isinstance(value, Map) and value.items.keys() <= _KEY_SOURCES
