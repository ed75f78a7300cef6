"""The shape of the budget; `schemas/budget.v1.json` is generated from it. Bytes are integers, null means unknown."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.shapes import Document, OriginDocument

#: Who saw what is shown: the running loop, or this program itself because none runs.
SeenBy = Literal["loop", "files"]
BudgetState = Literal["ready", "loading", "broken", "cold"]


@dataclass(frozen=True, slots=True)
class PartsDocument(Document):
    """Bytes by kind."""

    weights: int | None
    """The model's own bytes in memory."""
    context: int | None
    """KV cache and recurrent state of all slots, at full length."""
    overhead: int | None
    """Compute buffers, prompt cache, interpreter, libraries, driver context."""
    peak: int | None
    """Most it needs while it loads; of all models: while the last of them loads, whichever that is."""
    measured: int | None
    """Most that was ever measured of exactly this launch; null = it never ran."""
    charged: int | None
    """What it is charged while it is loaded: what is stated or estimated, or what was measured if that is more."""


@dataclass(frozen=True, slots=True)
class BudgetModelDocument(Document):
    """One model."""

    name: str
    state: BudgetState
    residency: str | None
    """Null for a process of a model the manifest no longer names."""
    priority: int | None
    stated: int | None
    """`memory.steady` of the manifest."""
    hint: str
    """What to write into the manifest where the size is unknown, or why the model cannot be started."""
    bytes: PartsDocument


@dataclass(frozen=True, slots=True)
class TotalsDocument(Document):
    """All models of the manifest together; what is unknown of one counts nothing."""

    bytes: PartsDocument
    """A file that several models map counts once."""
    incomplete: tuple[str, ...]
    """Kinds whose sum lacks a model whose bytes are unknown."""


@dataclass(frozen=True, slots=True)
class BudgetMachineDocument(Document):
    """The machine and what models may have of it."""

    total: int | None
    """Of the machine or the tightest limit above this program, or what the manifest states if that is less."""
    reserve: int | None
    """Kept for the system."""
    soft: int | None
    """Use of the machine above which only what somebody waits for is loaded; null = no watermarks."""
    hard: int | None
    """Use of the machine above which models are evicted and no load may lead; null = no watermarks."""
    gpu: int | None
    """Most that may be GPU memory at the same time; null = no such limit is known."""
    budget: int | None
    """What models may hold together."""
    available: int | None
    """What the system says could be used now."""
    held: int | None
    """What loaded models are charged."""
    reserved: int
    """What a load in progress has reserved."""
    others: int | None
    """What programs other than our models hold."""
    unattributed: int | None
    """In use, but held by no program, no pool and no known part of the kernel: drivers, mostly."""
    headroom: int | None
    """What could be loaded now without evicting anyone."""
    source: str
    """Where the readings come from, or why they are missing."""
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FitDocument(Document):
    """Whether some models fit into the budget together, also while any one of them loads."""

    models: tuple[str, ...]
    fits: bool | None
    """Null = it cannot be told."""
    need: int | None
    """Bytes they need together."""
    short: int | None
    """Bytes that lack; 0 when they fit."""
    unknown: tuple[str, ...]
    """Those of them whose size is unknown."""


@dataclass(frozen=True, slots=True)
class StretchDocument(Document):
    """What one model takes."""

    name: str
    bytes: int
    """What it is charged, without files that count with another model."""


@dataclass(frozen=True, slots=True)
class BarDocument(Document):
    """The memory as one line: models that are loaded, pinned or warm, and the rest. Each file counts once."""

    models: tuple[StretchDocument, ...]
    """Sorted by name. Those that are loaded are together what is `held` and `reserved`."""
    free: int
    """Left of the `headroom` once all of them are loaded."""
    unavailable: int
    """Neither free nor in reserve: other programs, the kernel, and what watermarks or a GPU keep models from."""
    reserve: int
    """Kept for the system."""
    over: int
    """Bytes that lack for all of them; 0 when they fit."""


@dataclass(frozen=True, slots=True)
class BudgetDocument(Document):
    """What `reconcile budget --json` prints and GET /api/v1/budget answers."""

    seen_by: SeenBy
    manifest: OriginDocument
    machine: BudgetMachineDocument
    models: tuple[BudgetModelDocument, ...]
    """Sorted by name."""
    totals: TotalsDocument
    bar: BarDocument | None
    """Null where the machine's memory is unknown."""
    pinned: FitDocument
    pinned_and_warm: FitDocument
    all: FitDocument
    two_largest: FitDocument | None
    """The two models that need most; null where fewer than two sizes are known."""
    beside: tuple[FitDocument, ...]
    """For each cold model of known size: whether it fits beside what is loaded now; `need` is what it adds."""
