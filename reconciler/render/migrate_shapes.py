"""The shape of a conversion's report; `schemas/import.v1.json` is generated from it."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.shapes import Document


@dataclass(frozen=True, slots=True)
class ImportFindingDocument(Document):
    """One thing to say of the source."""

    file: str
    line: int | None
    """From 1; null = the file as a whole."""
    col: int | None
    kind: Literal["error", "lost", "dead", "to do", "differs", "note"]
    """error: nothing can be written. lost: it had an effect there and has none here. dead: it had none there either.
    to do: the manifest is not complete without somebody's doing. differs: carried over, works in another way."""
    key: str
    """Where, in the source's own terms; empty = as a whole."""
    what: str
    """What it said, and what became of it."""
    advice: str
    """What to do; empty where nothing need be done."""


@dataclass(frozen=True, slots=True)
class ImportDocument(Document):
    """What `reconcile import ... --json` prints."""

    source: str
    """What was read."""
    complete: bool
    """Whether all was carried over and nothing is left to do."""
    written: str | None
    """The manifest's file; null = none was written."""
    manifest: str | None
    """The manifest itself; null where it was written into a file, or there is none."""
    models: tuple[str, ...]
    findings: tuple[ImportFindingDocument, ...]
    """In the order of their places."""
    refused: tuple[str, ...]
    """Why the manifest that came of it would be refused; empty otherwise."""
