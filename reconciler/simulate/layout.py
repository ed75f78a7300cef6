"""What is simulated: a manifest, the machine it would run on, and how fast its models are there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.core.memory import Memory
from reconciler.core.types import LedgerEntry, Manifest, Preflight
from reconciler.leases import Admission, QueueLimits


class Origin(StrEnum):
    """Where a figure comes from."""

    #: It is written in the description of the machine.
    STATED = "stated"
    #: It was measured on this machine, of processes with the very settings that are simulated.
    MEASURED = "measured"
    #: It is worked out from the size of the model, or is a constant.
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Origins:
    """Where each figure of a `Speed` comes from."""

    load: Origin = Origin.ASSUMED
    evict: Origin = Origin.ASSUMED
    prompt: Origin = Origin.ASSUMED
    output: Origin = Origin.ASSUMED
    fixed: Origin = Origin.ASSUMED


@dataclass(frozen=True, slots=True)
class Speed:
    """How long things take with one model, in seconds, and tokens a second."""

    load: float
    evict: float = 1.0
    #: Tokens of the prompt read, and of the answer written, in a second.
    prompt: float = 1000.0
    output: float = 30.0
    #: What every request takes besides.
    fixed: float = 0.05
    #: How long the next action waits after a load, while requests are served already: what is measured is noted then.
    after: float = 0.0
    origins: Origins = Origins()


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything a simulation needs to know besides the requests."""

    #: How it is called in tables: the manifest's path, and what differs.
    name: str
    manifest: Manifest
    #: The machine with none of the models loaded.
    memory: Memory
    speeds: Mapping[str, Speed]
    preflights: tuple[Preflight, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    admissions: Mapping[str, Admission] = field(default_factory=dict)
    limits: Mapping[str, QueueLimits] = field(default_factory=dict)
    gates: Mapping[str, int] = field(default_factory=dict)
    #: Urgency of each model's requests; missing = 500.
    urgency: Mapping[str, int] = field(default_factory=dict)
    #: Names that clients use, and the model each leads to; missing = the name itself.
    routes: Mapping[str, str] = field(default_factory=dict)
