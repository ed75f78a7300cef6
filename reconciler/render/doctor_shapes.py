"""The shape of an examination; `schemas/doctor.v1.json` is generated from it."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.shapes import Document


@dataclass(frozen=True, slots=True)
class FindingDocument(Document):
    """One thing seen."""

    level: Literal["ok", "note", "warning", "error"]
    topic: str
    """A word or two: memory, swap, ports ..."""
    what: str
    advice: str
    """What to do; empty where nothing need be done."""


@dataclass(frozen=True, slots=True)
class CountsDocument(Document):
    """How many findings have each level."""

    ok: int
    note: int
    warning: int
    error: int


@dataclass(frozen=True, slots=True)
class DoctorDocument(Document):
    """What `reconcile doctor --json` prints."""

    version: str
    """Of this program."""
    system: str
    """Operating system and its release."""
    findings: tuple[FindingDocument, ...]
    """In the order in which they were looked for."""
    counts: CountsDocument
