"""The values of a configuration, typed as llama-swap types them; what is none is noted as an error."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.problems import nearest
from reconciler.manifest.tree import Entry, Map, Mark, Node, Scalar, Seq
from reconciler.migrate.finding import Kind, Report

_TRUE: Final = frozenset({"true", "yes", "on", "y"})
_FALSE: Final = frozenset({"false", "no", "off", "n"})
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})


def is_null(node: Node) -> bool:
    """Tell whether nothing is written there."""
    return isinstance(node, Scalar) and node.plain and node.value in _NULL


@dataclass(slots=True)
class Section:
    """One mapping of the configuration. `path` is how messages call it."""

    node: Map
    path: str
    report: Report

    def has(self, key: str) -> bool:
        """Tell whether the key is there with a value."""
        return key in self.node.items and not is_null(self.node.items[key].value)

    def entry(self, key: str) -> Entry:
        """Return a key that is there."""
        return self.node.items[key]

    def mark(self, key: str) -> Mark:
        """Return where a key stands, or the section itself."""
        return self.node.items[key].key.mark if key in self.node.items else self.node.mark

    def call(self, key: str) -> str:
        """Return the key with the names of what it stands in."""
        return f"{self.path}.{key}" if self.path else key

    def say(self, kind: Kind, key: str, what: str, advice: str = "") -> None:
        """Note a finding about a key."""
        self.report.add(kind, self.mark(key), self.call(key), what, advice)

    def scalar(self, key: str) -> Scalar | None:
        """Return a single value, or None."""
        if not self.has(key):
            return None
        value = self.entry(key).value
        if isinstance(value, Scalar):
            return value
        self.say(Kind.ERROR, key, "it must be one value, not a list or a mapping")
        return None

    def text(self, key: str) -> str:
        """Return a text, or "" where there is none."""
        found = self.scalar(key)
        return found.value if found else ""

    def number(self, key: str) -> int | None:
        """Return a whole number, or None."""
        found = self.scalar(key)
        if found is None:
            return None
        if re.fullmatch(r"[+-]?[0-9]+", found.value) and found.plain:
            return int(found.value)
        self.say(Kind.ERROR, key, f"{quoted(found.value)} is not a whole number")
        return None

    def switch(self, key: str, default: bool) -> bool:
        """Return whether it says yes."""
        found = self.scalar(key)
        if found is None:
            return default
        value = found.value.lower()
        if value not in _TRUE | _FALSE or not found.plain:
            self.say(Kind.ERROR, key, f"{quoted(found.value)} is neither true nor false")
        return value in _TRUE

    def scalars(self, key: str) -> list[Scalar]:
        """Return the texts of a list."""
        if not self.has(key):
            return []
        value = self.entry(key).value
        items = value.items if isinstance(value, Seq) else None
        if items is None or not all(isinstance(item, Scalar) for item in items):
            self.say(Kind.ERROR, key, "it must be a list of texts")
            return []
        return [item for item in items if isinstance(item, Scalar)]

    def ids(self, key: str) -> list[Scalar]:
        """Return the names in a list of texts, or of mappings with an `id`."""
        value = self.entry(key).value if self.has(key) else None
        if not isinstance(value, Seq):
            return self.scalars(key)
        found = [
            item.items["id"].value if isinstance(item, Map) and "id" in item.items else item
            for item in value.items
        ]
        if not all(isinstance(item, Scalar) for item in found):
            self.say(Kind.ERROR, key, "it must be a list of names, or of mappings with an `id`")
        return [item for item in found if isinstance(item, Scalar)]

    def section(self, key: str) -> "Section | None":
        """Return a mapping below this one, or None."""
        if not self.has(key):
            return None
        value = self.entry(key).value
        if isinstance(value, Map):
            return Section(value, self.call(key), self.report)
        self.say(Kind.ERROR, key, "it must be a mapping")
        return None

    def sections(self, key: str) -> Iterator[tuple[str, "Section"]]:
        """Yield the mappings in a mapping, by name."""
        outer = self.section(key)
        if outer is not None:
            for name in outer.node.items:
                if (inner := outer.section(name)) is not None:
                    yield name, inner
                elif is_null(outer.entry(name).value):
                    yield name, Section(Map(outer.mark(name)), outer.call(name), self.report)

    def dead(self, known: frozenset[str]) -> None:
        """Note the keys that llama-swap does not know, and passes over without a word."""
        for name in self.node.items:
            if name not in known and not name.startswith("x-"):  # a place for anchors
                near = nearest(name, known)
                advice = (
                    f"did you mean {near}? It was never applied" if near else "delete it; nothing was lost"
                )
                self.say(
                    Kind.DEAD, name, f"{quoted(name)} is no key of llama-swap, which passes over it", advice
                )


def locate(scalar: Scalar, needle: str) -> Mark:
    """Return where `needle` stands in the lines of a value, or where the value begins."""
    first, last = scalar.mark.line, scalar.end[0]
    for number in range(first, last + 1):
        start = scalar.mark.col - 1 if number == first else 0
        if (at := scalar.mark.file.line(number).find(needle, start)) >= 0:
            return Mark(scalar.mark.file, number, at + 1)
    return scalar.mark
