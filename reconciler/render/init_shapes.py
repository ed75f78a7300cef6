"""The shape of what `reconcile init` found and wrote; `schemas/init.v1.json` is generated from it."""

from dataclasses import dataclass
from typing import Final

from reconciler.render.shapes import Document

#: What was left out that the manifest names; the document has all of it.
MOST_LEFT_OUT: Final = 1000


@dataclass(frozen=True, slots=True)
class InitEngineDocument(Document):
    """An engine whose server is on this machine."""

    name: str
    program: str
    version: str | None
    """As far as files tell; null = they do not."""


@dataclass(frozen=True, slots=True)
class InitModelDocument(Document):
    """A model in the manifest that was written."""

    name: str
    engine: str
    role: str
    weights: str
    projector: str | None
    context: int | None
    """Tokens; null = it has none, or takes its own length."""
    length: int | None
    """Tokens it was made for; null = its files do not say."""
    size: int
    """Bytes of its files."""
    steady: int
    """Bytes once it is loaded, as its files say."""
    need: int
    """Bytes while it is loaded: the most."""
    priority: str
    residency: str


@dataclass(frozen=True, slots=True)
class InitLeftOutDocument(Document):
    """A file or folder that is in no entry of the manifest."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class InitDocument(Document):
    """What `reconcile init --json` prints."""

    manifest: str
    """The file that was written."""
    kept: str | None
    """Where the file of that name is now that was there before; null = there was none."""
    searched: tuple[str, ...]
    """Folders and files that were looked into."""
    unfinished: str
    """Why not everything in them was seen; empty = it was."""
    total: int | None
    """Bytes of memory of this machine; null = could not be read."""
    budget: int | None
    """Of it, what models may hold together."""
    engines: tuple[InitEngineDocument, ...]
    """Sorted by name."""
    models: tuple[InitModelDocument, ...]
    """Sorted by name."""
    left_out: tuple[InitLeftOutDocument, ...]
    """Sorted by path."""
    hints: tuple[str, ...]
    """What else is worth knowing, one sentence each."""
    next: tuple[str, ...]
    """Commands to go on with."""
    address: str
    """Where clients will connect."""
