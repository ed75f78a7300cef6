"""The shape of what `reconcile --version --json` prints; `schemas/version.v1.json` is generated from it."""

from dataclasses import dataclass

from reconciler.render.document import Document


@dataclass(frozen=True, slots=True)
class VersionedDocument(Document):
    """Something that is installed."""

    name: str
    version: str | None
    """Null = it is a program whose files do not tell."""
    path: str | None
    """Of a program on PATH; null for a Python package."""


@dataclass(frozen=True, slots=True)
class VersionDocument(Document):
    """What this program is, and what it runs on."""

    version: str
    commit: str | None
    """Of the checkout it runs from, or was built from; null = not known."""
    location: str
    """Folder of the package."""
    python: str
    implementation: str
    executable: str
    platform: str
    """System, its release and the processor."""
    engines: tuple[VersionedDocument, ...]
    """Engines that are importable here or on PATH, by name."""
    packages: tuple[VersionedDocument, ...]
    """Packages that this program needs, by name."""
