"""The shapes of what is told of one model, and of its log. `at` is seconds since 1970, durations are
seconds, bytes integers, null = unknown.
"""

from dataclasses import dataclass

from reconciler.render.document import Document
from reconciler.render.history_shapes import ArrivalsDocument, EvictionDocument, LoadDocument
from reconciler.render.shapes import ModelDocument
from reconciler.render.verdict_shapes import VerdictDocument


@dataclass(frozen=True, slots=True)
class LaunchDocument(Document):
    """How a model is started. No secret appears: what stands under a secret name is `***`."""

    engine: str | None
    """Null for a process of a model the manifest no longer names."""
    argv: tuple[str, ...]
    """Of the process while there is one, else as it would be started; empty where that cannot be told."""
    problem: str | None
    """Why it cannot be told what the manifest starts; null where it can."""
    environment: tuple[str, ...]
    """Names of the variables it is given besides the manager's own, sorted. Their values are shown nowhere."""
    cwd: str | None
    port: int | None
    """Null for a model without a process whose port is chosen when it is started."""
    digest: str
    """Launch digest of the process, else of the manifest: changes with the settings a process is started with."""
    current: bool
    """False: the process was started with other settings than those of the manifest, and is to be replaced."""
    pid: int | None
    log: str | None
    """Path of its log file."""


@dataclass(frozen=True, slots=True)
class ModelPageDocument(Document):
    """What GET /api/v1/models/NAME answers."""

    model: ModelDocument
    """As in the status."""
    verdict: VerdictDocument | None
    launch: LaunchDocument | None
    """Null for a model with neither a process nor a place in the manifest."""
    loads: tuple[LoadDocument, ...]
    """The newest 50, oldest first."""
    evictions: tuple[EvictionDocument, ...]
    """The newest 50, oldest first."""
    use: ArrivalsDocument
    """Requests of the last 7 days."""


@dataclass(frozen=True, slots=True)
class ModelLogDocument(Document):
    """What GET /api/v1/models/NAME/log answers."""

    model: str
    path: str
    lines: tuple[str, ...]
    """The last ones, oldest first, secrets masked, without control characters."""
    truncated: bool
    """There are older ones."""
