"""The shape of what `reconcile diff` tells; `schemas/diff.v1.json` is generated from it. Bytes; null = unknown."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.document import Document
from reconciler.render.shapes import AccountDocument, GitDocument, StepDocument
from reconciler.render.verdict_shapes import VerdictDocument


@dataclass(frozen=True, slots=True)
class SideDocument(Document):
    """One of the two manifests."""

    path: str
    rev: str | None
    """As it was asked for; null = the files as they are."""
    git: GitDocument | None


@dataclass(frozen=True, slots=True)
class KeyChangeDocument(Document):
    """One key whose value is another, as it is understood."""

    key: str
    """Below the section: `context.max_tokens`; empty where a whole model or virtual model came or went."""
    before: str | None
    """As written, `(default)` where nobody states it, `(hidden)` for a secret; null = there is no such key."""
    after: str | None
    place: str
    """file:line:col of the new value, or of the old one; empty = neither is written."""


@dataclass(frozen=True, slots=True)
class SectionChangeDocument(Document):
    """What changed of one model, or of one part of the manifest."""

    section: Literal["model", "virtual", "settings"]
    name: str
    """Of the model; for settings the first key, such as `machine`."""
    change: Literal["added", "removed", "changed"]
    restarts: bool
    """A model's process is replaced if it runs."""
    keys: tuple[KeyChangeDocument, ...]


@dataclass(frozen=True, slots=True)
class SizeChangeDocument(Document):
    """What one model takes."""

    name: str
    before: int | None
    """Bytes it is charged while it is loaded; null = not known, or not there."""
    after: int | None
    held_before: bool
    """Whether it is in memory once the manifest has its way and nobody asks for anything."""
    held_after: bool


@dataclass(frozen=True, slots=True)
class DiffDocument(Document):
    """What `reconcile diff --json` prints."""

    before: SideDocument
    after: SideDocument
    described: bool
    """The machine was described in a file; else it is this one, with nothing else in its memory."""
    changes: tuple[SectionChangeDocument, ...]
    """Settings first, then models and virtual models, each sorted by name; empty = they mean the same."""
    steps: tuple[StepDocument, ...]
    """What would be done where the old manifest has had its way, in order."""
    verdicts: tuple[VerdictDocument, ...]
    """What would become of each model then, by name."""
    account_before: AccountDocument
    """Once the old manifest has had its way."""
    account_after: AccountDocument
    """Once the new one has."""
    sizes: tuple[SizeChangeDocument, ...]
    """By name; of models that are in one of the two."""
    lost: tuple[VerdictDocument, ...]
    """Models that could be in memory before, or are new, and cannot any more; by name."""
    warnings: tuple[str, ...]
    """What is said of the new manifest and was not of the old one."""
