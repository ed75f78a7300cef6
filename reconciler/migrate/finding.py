"""What is said of a conversion: where it stood, what it said, what became of it, what to do."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.tree import Mark
from reconciler.migrate.secret import veiled


class Kind(StrEnum):
    """How a finding weighs. In the order of their urgency."""

    #: It cannot be converted, so nothing is written.
    ERROR = "error"
    #: It had an effect there, and has none here.
    LOST = "lost"
    #: It had no effect there either: nobody reads it.
    DEAD = "dead"
    #: The manifest is not complete without somebody's doing.
    TODO = "to do"
    #: It is carried over, and works in another way here.
    DIFFERS = "differs"
    #: Worth knowing; nothing was lost.
    NOTE = "note"


#: What leaves something behind that people must see to.
INCOMPLETE: Final = frozenset({Kind.LOST, Kind.DEAD, Kind.TODO})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say. `line` and `col` count from 1; 0 = the file as a whole."""

    file: str
    line: int
    col: int
    kind: Kind
    #: Where in the source's own terms: `models.chat.ttl`.
    key: str
    #: What it said, and what became of it.
    what: str
    #: What to do; empty where nothing need be done.
    advice: str = ""

    @property
    def place(self) -> str:
        """Return `FILE:line:col`, or the file alone."""
        return f"{self.file}:{self.line}:{self.col}" if self.line else self.file


def shown(text: str) -> str:
    """Return a text of the source in quotes, without what looks like a secret."""
    return quoted(veiled(text))


@dataclass(slots=True)
class Report:
    """The findings so far, each once."""

    found: list[Finding] = field(default_factory=list)

    def add(self, kind: Kind, mark: Mark, key: str, what: str, advice: str = "") -> None:
        """Note something. What is repeated of the source has gone through `shown`."""
        finding = Finding(mark.file.name, mark.line, mark.col, kind, key, what, advice)
        if finding not in self.found:
            self.found.append(finding)

    def has(self, *kinds: Kind) -> bool:
        """Tell whether there is a finding of one of these kinds."""
        return any(finding.kind in kinds for finding in self.found)

    def sorted(self) -> tuple[Finding, ...]:
        """Return the findings in the order of their places, at one place the more urgent first."""
        urgency = list(Kind)
        return tuple(
            sorted(self.found, key=lambda f: (f.file, f.line, f.col, urgency.index(f.kind), f.key, f.what))
        )
