"""What is written down: each process we start, so that a later run can recognise it, and what came of the use."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One start of one model. Written before the process exists (`pid` None), completed once it does."""

    #: Unique name of this start; the process carries it in its environment.
    launch_id: str
    model: str
    #: Launch digest (`core.launch`): decides whether a survivor may be adopted.
    digest: str
    pid: int | None
    #: Start time of the pid in clock ticks since boot.
    started: int | None
    port: int
    #: Boot during which the pid and its start time mean anything.
    boot_id: str
    #: It answered a real call at least once.
    ready: bool = False
    #: Wall-clock seconds at which it was begun; for people only.
    created: float = 0.0
    #: Bytes it was let in at; 0 = not known.
    admitted: int = 0
    #: It was ready once, and sleeps now: it serves nobody until it is woken.
    asleep: bool = False
    #: Fingerprint of the weights it was started with; "" = not known.
    weights: str = ""
    #: Bytes committed when it became ready; None = not known.
    committed_at_ready: int | None = None
    #: Requests it has served, a minute ago or so.
    served: int = 0
    #: When it was used last, a few seconds ago or so, by the monotonic clock of its boot; None = not known.
    last_used: float | None = None
    #: What was being done with it: `sleeping`, `waking` or `stopping` (it was neither ready nor asleep then), or "".
    stage: str = ""


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """One load that ended, in whatever way. `id` only grows; 0 = not written yet."""

    id: int
    #: When it was begun, wall-clock seconds.
    at: float
    model: str
    digest: str
    #: Why it was begun (`core.types.Reason`).
    reason: str
    #: From its begin to its end.
    seconds: float
    #: Bytes it is known to have held at most; None = not measured.
    peak: int | None
    #: `ready`, `failed`, or `given-up`.
    outcome: str
    #: Requests that waited for the model when the load was begun.
    waiting: int
    #: `load` for a new process, `wake` for one that slept.
    kind: str
    #: Why it failed, or was given up; "" = it was not.
    error: str = ""
    #: What kind of failure that was (`core.crashes.FailureKind`); "" = none.
    failure: str = ""


@dataclass(frozen=True, slots=True)
class EvictionRecord:
    """One eviction that ended, in whatever way. `id` only grows; 0 = not written yet."""

    id: int
    #: When it was begun, wall-clock seconds.
    at: float
    model: str
    #: Why it was begun (`core.types.Reason`).
    reason: str
    #: The model it made room for; "" = for none in particular.
    for_model: str
    #: Bytes it was to give back.
    frees: int
    #: Share of the machine's memory in use when it was begun; None = unknown.
    used: float | None
    #: Level of the pressure then: `calm`, `soft`, `hard`, `critical`.
    pressure: str
    #: From its begin to its end.
    seconds: float
    #: Seconds the model had been in memory, and without a request, when it was begun.
    resident: float
    idle: float
    #: Regret: seconds from its begin until the model was wanted again; None = it was not.
    wanted_after: float | None
    #: `gone`, `asleep` (its process stays), or `given-up` (it was called off).
    outcome: str


@dataclass(frozen=True, slots=True)
class ArrivalBucket:
    """The requests for one model in five minutes."""

    model: str
    #: Wall-clock second at which the five minutes begin, a multiple of `BUCKET_SECONDS`.
    start: int
    requests: int
    #: Those that came while the model took no requests, and the seconds that all of these waited for it.
    cold: int = 0
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of the manager. `id` only grows."""

    id: int
    #: When it began, wall-clock seconds; for people only.
    at: float
    #: During which boot of the machine; "" = not known.
    boot_id: str
    #: What could have taken the machine down with it: a load a short time ago, or little memory; "" = nothing.
    risk: str
    #: It ended by itself, or was asked to.
    ended: bool
    #: During it, or before, somebody or the time has ended a safe mode.
    left_safe_mode: bool


#: Length of an `ArrivalBucket` in seconds.
BUCKET_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that has ended. `id` only grows; 0 = not written yet. `at` is when it came, wall-clock seconds."""

    id: int
    at: float
    model: str
    #: Who asked, as far as is known.
    client: str
    #: Seconds it waited, and of these the seconds in which its model took no requests.
    waited: float
    cold: float
    #: Seconds it was served; 0 = never.
    seconds: float
    prompt_tokens: int | None
    output_tokens: int | None
    #: `ok`, `failed`, `cut`, `left` (the client went while it waited), or `refused:CODE`.
    outcome: str
