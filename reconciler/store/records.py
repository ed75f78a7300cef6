"""What is written down about each process we start, so that a later run can recognise it."""

from dataclasses import dataclass


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
