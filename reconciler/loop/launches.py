"""The launches of ours that live: one mutable page each, written by the loop's task only."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio

from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Said
from reconciler.core.types import Instance
from reconciler.host import Exit, Process, ending
from reconciler.memory.fingerprint import Marks
from reconciler.memory.probe import Held
from reconciler.store.records import LaunchRecord


@dataclass(eq=False, slots=True)
class Launch:
    """One start of one model. Times are monotonic seconds."""

    id: str
    model: str
    digest: str
    #: None for a launch of settings that no manifest in force describes.
    spec: LaunchSpec | None
    process: Process
    port: int
    started_at: float
    #: The loopback address it listens on, as a URL has it.
    host: str = "127.0.0.1"
    ready: bool = False
    #: We are ending it: its exit is no crash.
    stopping: bool = False
    broken: bool = False
    #: Of an earlier run, and silent so far: nobody is sent to it yet.
    on_trial: bool = False
    #: Of an earlier run whose ledger was lost: its record was made again from the process.
    rebuilt: bool = False
    loaded_at: float = 0.0
    #: Its processes, and when they were found out last.
    pids: tuple[int, ...] = ()
    pids_at: float = float("-inf")
    #: What its processes hold, as it was read last; before the first look that is nothing.
    held: Held = field(default_factory=lambda: Held(0, 0))
    #: Bytes that nobody owned up to before it was begun (None = not known), and those that came with it: a driver
    #: holds them for it without saying so.
    unattributed_before: int | None = None
    unowned: int = 0
    #: Bytes it was let in at, and the build of the engine that was started.
    admitted: int = 0
    build: str = ""
    #: What its log said it took.
    said: Said | None = None
    #: Wall-clock seconds at which it was begun; for people only.
    created: float = 0.0
    #: It gave its memory back and serves nobody until it is woken; `ready` is then False.
    asleep: bool = False
    #: It would give nothing back.
    sleepless: bool = False
    #: Its model was displaced before, in this run, and is here again.
    returned: bool = False
    #: Requests served before it was loaded, woken or adopted, and since, as of the last look; what of both is on
    #: record, and when that was written.
    served_before: int = 0
    served: int = 0
    served_noted: int = 0
    noted_at: float = float("-inf")
    #: When it was used last, as of the last look, and as it is on record; None = not known.
    used_at: float | None = None
    used_noted: float | None = None
    #: Its files as they were when it was started; None = not known.
    marks: Marks | None = None
    #: Of what it had committed: bytes that it gave back when it fell asleep, and what it kept; None = not known.
    gave_back: int | None = None
    kept: int | None = None
    #: Fingerprint of the weights it was started with; "" = not known.
    weights: str = ""
    #: Bytes committed when it was ready for the first time; None = not known.
    committed_at_ready: int | None = None
    #: Why it is suspected to hang, and why it is sure that it does; "" = it is not.
    suspect: str = ""
    hung: str = ""
    #: The cause of the suspicion, in one word.
    suspected_for: str = ""
    #: What its server asks of its clients.
    key: str | None = field(default=None, repr=False)
    exit: Exit | None = None
    exited_at: float | None = None
    exited: anyio.Event = field(default_factory=anyio.Event)

    @property
    def committed(self) -> int | None:
        """Bytes only it can give back; None = unknown."""
        return None if self.held.committed is None else self.held.committed + self.unowned

    @property
    def warm(self) -> int | None:
        """Bytes of resident mapped weights; None = unknown.

        Where the system cannot tell (macOS) it is what the engine says it mapped for the GPU: those pages are in no
        footprint, and whether they are wired changes from second to second.
        """
        if self.held.files or self.held.warm is None or self.said is None:
            return self.held.warm
        return max(self.held.warm, self.said.gpu_mapped or 0)

    @property
    def holds(self) -> int | None:
        """All it holds, resident mapped weights included; None = unknown."""
        return None if self.committed is None else self.committed + (self.warm or 0)

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def is_ending(self) -> bool:
        """Return whether one of its processes is just ending; see `host.ending`. Takes microseconds."""
        return any(ending(pid) for pid in {self.process.pid, *self.pids})


class Launches:
    """All launches by id, and which of them serves each model."""

    def __init__(self) -> None:
        self._by_id: dict[str, Launch] = {}
        self._serving: dict[str, Launch] = {}
        #: Models whose last process was unloaded for a reason that says: not again at once.
        self._rest: set[str] = set()
        #: Models that had to go for others.
        self._displaced: set[str] = set()
        #: Models and digests that were asked to sleep, and gave nothing back.
        self._sleepless: set[tuple[str, str]] = set()

    def __iter__(self) -> Iterator[Launch]:
        return iter(sorted(self._by_id.values(), key=lambda x: (x.model, x.id)))

    def has(self, launch: Launch) -> bool:
        """Return whether a launch is still known: something of it may be left."""
        return self._by_id.get(launch.id) is launch

    def add(self, launch: Launch) -> None:
        """Note a launch that has been started or adopted."""
        self._by_id[launch.id] = launch
        launch.sleepless = (launch.model, launch.digest) in self._sleepless

    def no_sleep(self, model: str, digest: str) -> None:
        """Note that these settings are not worth being asked to sleep."""
        self._sleepless.add((model, digest))

    def drop(self, launch: Launch) -> None:
        """Forget a launch of which nothing is left."""
        self._by_id.pop(launch.id, None)
        if self._serving.get(launch.model) is launch:
            del self._serving[launch.model]

    def serve(self, launch: Launch) -> None:
        """Note that requests for its model go to this launch."""
        self._serving[launch.model] = launch
        self._rest.discard(launch.model)
        launch.returned = launch.model in self._displaced

    def serving(self, model: str) -> Launch | None:
        """Return the launch that answers for a model, or None."""
        return self._serving.get(model)

    def unserve(self, launch: Launch) -> None:
        """Note that requests do not go to this launch any more."""
        if self._serving.get(launch.model) is launch:
            del self._serving[launch.model]

    def unloaded(self, model: str, *, rests: bool, displaced: bool = False) -> None:
        """Note that a model's process was unloaded, and whether its next load may have to wait for a while.

        `displaced`: others needed what it held.
        """
        if displaced:
            self._displaced.add(model)
        if rests:
            self._rest.add(model)
        else:
            self._rest.discard(model)

    def rests(self, model: str) -> bool:
        """Return whether the time since a model's unloading matters: not after a crash, nor for a replacement."""
        return model in self._rest

    def find(self, pid: int, started: int) -> Launch | None:
        """Return the launch of this process, or None."""
        return next((x for x in self if (x.process.pid, x.process.started) == (pid, started)), None)

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports promised to launches, sorted."""
        return tuple(sorted(x.port for x in self._by_id.values()))


def instance(launch: Launch, last_used: float, served: int) -> Instance:
    """Return the launch as the core sees it."""
    return Instance(
        model=launch.model,
        digest=launch.digest,
        pid=launch.process.pid,
        started=launch.process.started,
        port=launch.port,
        ready=launch.ready,
        committed=launch.committed,
        warm=launch.warm,
        loaded_at=launch.loaded_at,
        last_used=last_used,
        served=served,
        broken=launch.broken,
        admitted=launch.admitted,
        files=launch.held.files,
        device=launch.held.device + launch.unowned,
        warm_basis=launch.held.warm_basis,
        warm_at=launch.held.warm_at,
        most=launch.held.peak,
        asleep=launch.asleep,
        weights=launch.weights,
        committed_at_ready=launch.committed_at_ready,
        sleepless=launch.sleepless,
        returned=launch.returned,
        served_before=launch.served_before,
        began=launch.started_at,
        suspect=launch.suspect,
        hung=launch.hung,
        suspected_for=launch.suspected_for,
    )


def record_of(launch: Launch, boot: str, stage: str = "") -> LaunchRecord:
    """Return what is written down of a launch; one that sleeps was ready. `stage` is what is being done with it."""
    return LaunchRecord(
        launch.id,
        launch.model,
        launch.digest,
        launch.process.pid,
        launch.process.started,
        launch.port,
        boot,
        (launch.ready or launch.asleep) and not stage,
        launch.created,
        launch.admitted,
        launch.asleep and not stage,
        launch.weights,
        launch.committed_at_ready,
        launch.served_before + launch.served,
        launch.used_at,
        stage,
    )
