"""The shape of the budget; `schemas/budget.v1.json` is generated from it. Bytes are integers, null means unknown."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.memory_shapes import BreakdownDocument
from reconciler.render.shapes import Document, OriginDocument

#: Who saw what is shown: the running loop, or this program itself because none runs.
SeenBy = Literal["loop", "files", "description"]
BudgetState = Literal["ready", "loading", "asleep", "broken", "cold"]


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
    notes: tuple[str, ...]
    """What is worth knowing of its settings here and hinders nothing, one sentence each."""
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
    """What models may have, of which memory, and who holds the machine's."""

    share: int | None
    """Models and the reserve together: `stated`, or `total` if that is less or nothing is stated."""
    stated: int | None
    """`machine.memory` of the manifest; null = not stated."""
    reserve: int | None
    """Kept for the system."""
    budget: int | None
    """What models may hold together: `share` less `reserve`, at most `hard` and `gpu`."""
    held: int | None
    """What loaded models are charged."""
    reserved: int
    """What a load in progress has reserved."""
    headroom: int | None
    """What could be loaded now without evicting anyone: what is left of the budget, or of what is available if less."""
    total: int | None
    """Of the machine, or of the tightest control group above this program."""
    limited: bool
    """A control group allows less than the machine has: `total`, `available`, `soft` and `hard` are the group's."""
    available: int | None
    """What the system says could be used now, within `total`."""
    soft: int | None
    """Use of `total` above which only what somebody waits for is loaded; null = no watermarks."""
    hard: int | None
    """Use of `total` above which models are evicted and no load may lead; null = no watermarks."""
    critical: int | None
    """Use of `total` above which models in use are evicted too; null = no watermarks."""
    target: int | None
    """Use of `total` below which evicting for the hard mark ends; null = no watermarks."""
    gpu: int | None
    """Most that may be GPU memory at the same time; null = no such limit is known."""
    host: BreakdownDocument | None
    """Who holds the memory of the whole machine, whatever limits this program; null = it cannot be told."""
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
    never: tuple[FitDocument, ...]
    """Models for which there is no room even with only the pinned ones there; `need` is with those. Sorted by name."""
