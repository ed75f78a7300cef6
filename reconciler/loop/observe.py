"""One look at the machine: memory, process trees, files, and what clients want."""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import anyio.to_thread

from reconciler.core import pressure
from reconciler.core.account import breakdown, warm_together
from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Memory, Watermarks
from reconciler.core.types import Demand, Instance, Manifest, Observation, Preflight
from reconciler.host import Host, Ports
from reconciler.leases import LeaseBook
from reconciler.loop.floor import FloorWatch
from reconciler.loop.guarded import Guarded
from reconciler.loop.launches import Launch, Launches, instance
from reconciler.loop.oom_watch import OomWatch
from reconciler.loop.preflights import files_of
from reconciler.loop.startable import examined, preflight
from reconciler.loop.weights import Checked, Weights
from reconciler.memory.fingerprint import Marks, marks
from reconciler.memory.probe import MachineProbe

#: Files of a model nobody asks for are looked at again after this many seconds.
PREFLIGHT_SECONDS: Final = 30.0
#: The same of one that cannot be started: somebody may be bringing what it lacks.
HINDERED_SECONDS: Final = 5.0
#: Which processes a model that is ready consists of is found out this often; in between those known are measured.
TREE_SECONDS: Final = 30.0
#: How many requests a process has served, and when it was used last, is recorded this often.
SERVED_SECONDS: Final = 5.0
#: Memory that came with a load and that nobody owns up to is charged to it where it is more than this, and more than
#: this share of what it holds.
UNOWNED_BYTES: Final = 1 << 30
UNOWNED_SHARE: Final = 0.1


#: What the files of a model say, and how they are.
Found = tuple[Preflight, Marks | None]


class Observer:
    """Looks. Each look has the next sequence number."""

    def __init__(self, host: Host, machine: MachineProbe, launches: Launches, book: LeaseBook) -> None:
        self._host = host
        self._machine = Guarded(machine)
        self._launches = launches
        self._book = book
        self._seq = 0
        self._checked: dict[str, Checked] = {}
        self._weights = Weights()
        #: What the last look was told, for those between two.
        self._specs: Mapping[str, LaunchSpec] = {}
        self._ports = Ports(1, 1)
        #: Launches of which something was found out that is not on record yet.
        self._found_out: list[Launch] = []
        #: Models whose files the next look looks at however lately that was done.
        self._again: set[str] = set()
        #: The probe remembers things and is asked from several worker threads.
        self._lock = threading.Lock()
        self.oom = OomWatch()
        self._pressure = pressure.Pressure()
        #: The machine at the last look, and the warm bytes of all models then.
        self._seen, self._warm = Memory(None, None), 0
        self._unattributed: int | None = None
        self._least_unattributed: int | None = None

    async def look(
        self, manifest: Manifest, specs: Mapping[str, LaunchSpec], ports: Ports, now: float
    ) -> Observation:
        """Return what is there now. Files, processes and memory are read in a worker thread."""
        live = list(self._launches)
        demands = self._book.demands()
        self._count(live, {d.model for d in demands if d.in_use}, now)
        self._specs, self._ports = dict(specs), ports
        due = self._due(specs, {d.model for d in demands if d.waiting or d.wanted}, now)
        memory, checked = await anyio.to_thread.run_sync(self._read, live, due, ports, now)
        self._checked = {m: c for m, c in (self._checked | checked).items() if m in specs}
        self._seq += 1
        instances = tuple(self._instance(x) for x in live)
        self._note_unattributed(memory, instances)
        self._seen, self._warm = memory, warm_together(instances)
        self._pressure = pressure.observe(
            self._pressure, memory, self._warm, manifest.watermarks, manifest.max_swap, now
        )
        return Observation(
            seq=self._seq,
            at=now,
            memory=memory,
            instances=instances,
            demands=self._demands(),
            preflights=tuple(self._judged(c, live, now) for _, c in sorted(self._checked.items())),
            pressure=self._pressure,
            least_unattributed=self._least_unattributed,
        )

    def used(self, seen: Observation) -> Observation:
        """Return the same look with what clients do at this very moment: a request may have come since."""
        live = {(x.process.pid, x.process.started): x for x in self._launches}
        instances = []
        for known in seen.instances:
            launch = live.get((known.pid, known.started))
            last_used, served = self._usage(launch) if launch else (known.last_used, known.served)
            instances.append(replace(known, last_used=last_used, served=served))
        return replace(seen, demands=self._demands(), instances=tuple(instances))

    async def measure(self, launch: Launch, now: float) -> None:
        """Read both memory figures of one launch now, and charge it what came with it and nobody owns up to."""
        await anyio.to_thread.run_sync(self._measure_one, list(self._launches), launch, now)

    async def available(self) -> int | None:
        """Return the bytes that a new process could get now; None = unknown."""
        return (await anyio.to_thread.run_sync(self._memory)).available

    @property
    def pace(self) -> float:
        """Seconds between two glances that cost next to nothing."""
        return self._machine.pace

    async def uneasy(self, marks: Watermarks | None) -> bool:
        """Return whether memory has filled past the soft mark since the last look: the next one is due now."""
        if marks is None or not self._pressure.samples:
            return False
        before = self._pressure.samples[-1].used
        available = await anyio.to_thread.run_sync(self._glance)
        used = pressure.share_used(replace(self._seen, available=available), self._warm)
        return used is not None and used >= marks.soft and (before is None or before < marks.soft)

    async def sinks(self, manifest: Manifest) -> bool:
        """Return whether less is available than a load may leave: the next look is due now."""
        depth = FloorWatch.depth(manifest, self._seen)
        available = await anyio.to_thread.run_sync(self._glance)
        return depth is not None and available is not None and available < depth

    async def before(self, spec: LaunchSpec) -> Found:
        """Return how the files of a model are at this moment, in which its process is about to be started."""
        return await anyio.to_thread.run_sync(self._now, spec)

    def begin(self, launch: Launch, found: Found, now: float) -> None:
        """Note how things were before a model was loaded."""
        launch.unattributed_before = self._unattributed
        self._weights.begin(launch, *found, now)

    async def ready(self, launch: Launch, spec: LaunchSpec) -> None:
        """Note how the files of a model are after its load."""
        self._weights.ready(launch, *await self.before(spec))

    def is_old(self, model: str, now: float) -> bool:
        """Return whether the files of a model were looked at before `now`; the next look includes them then."""
        checked = self._checked.get(model)
        if checked is None or checked.at >= now:
            return False
        self._again.add(model)
        return True

    async def hindrance(self, model: str, now: float) -> str:
        """Look at the files of a model now; return why it cannot be started any more, or ""."""
        spec = self._specs.get(model)
        if spec is None:
            return ""
        checked = await anyio.to_thread.run_sync(self._check, spec, list(self._launches), self._ports, now)
        self._checked[model] = checked
        return "" if checked.result.reason is None else checked.result.message or str(checked.result.reason)

    def found_out(self) -> list[Launch]:
        """Return the launches of which more is known than is on record, once."""
        found, self._found_out = self._found_out, []
        return found

    def evicted(self) -> None:
        """Note that a model went: whether memory is still short has to be seen anew."""
        self._pressure = pressure.evicted(self._pressure)

    def _note_unattributed(self, memory: Memory, instances: tuple[Instance, ...]) -> None:
        seen = breakdown(memory, instances)
        if seen is not None:
            self._unattributed = seen.unattributed
            least = self._least_unattributed
            self._least_unattributed = seen.unattributed if least is None else min(least, seen.unattributed)

    def _instance(self, launch: Launch) -> Instance:
        return instance(launch, *self._usage(launch))

    def _usage(self, launch: Launch) -> tuple[float, int]:
        """Return when a launch was last used, and how often."""
        if self._launches.serving(launch.model) is not launch:
            return launch.loaded_at, 0
        return self._book.last_used(launch.model) or launch.loaded_at, self._book.served(launch.model)

    def _count(self, live: list[Launch], in_use: set[str], now: float) -> None:
        """Note how each process is used, and now and then that this is to be recorded."""
        for launch in live:
            if self._launches.serving(launch.model) is not launch:
                continue
            launch.served = self._book.served(launch.model)
            launch.used_at = now if launch.model in in_use else self._book.last_used(launch.model)
            whole, used = launch.served_before + launch.served, launch.used_at
            new = whole != launch.served_noted or used != launch.used_noted
            if new and now - launch.noted_at >= SERVED_SECONDS:
                launch.served_noted, launch.used_noted, launch.noted_at = whole, used, now
                self._found_out.append(launch)

    def _demands(self) -> tuple[Demand, ...]:
        """Return what clients want; the time of an unloading only where the next load may have to wait for it."""
        return tuple(
            d if d.closed is None or self._launches.rests(d.model) else replace(d, closed=None)
            for d in self._book.demands()
        )

    def _due(self, specs: Mapping[str, LaunchSpec], asked: set[str], now: float) -> list[LaunchSpec]:
        due = []
        for name, spec in sorted(specs.items()):
            old = self._checked.get(name)
            fresh = old is not None and old.spec == spec and now - old.at < _lasts(old.result)
            wanted = name in asked and self._launches.serving(name) is None
            if not fresh or wanted or name in self._again:
                due.append(spec)
        self._again.clear()
        return due

    def _judged(self, found: Checked, live: list[Launch], now: float) -> Preflight:
        """Return what the last look at a model's files says, next to what its process was started with."""
        launch = next((x for x in live if x.model == found.spec.model and (x.ready or x.asleep)), None)
        if launch is None:
            return found.result
        if self._weights.fill_in(launch, found):
            self._found_out.append(launch)
        return self._weights.judged(launch, found, now)

    # -- in the worker thread -------------------------------------------------------------------------------------

    def _read(
        self, live: list[Launch], due: list[LaunchSpec], ports: Ports, now: float
    ) -> tuple[Memory, dict[str, Checked]]:
        self.oom.look([x.process.pid for x in live])
        with self._lock:
            self._measure(live, now)
            memory = _named(self._machine.read(now), live)
        return memory, {s.model: self._check(s, live, ports, now) for s in due}

    def _check(self, spec: LaunchSpec, live: list[Launch], ports: Ports, now: float) -> Checked:
        owners = {x.port: x.model for x in live}
        seen, wall = marks(files_of(spec)), time.time()
        return Checked(spec, now, wall, preflight(spec, owners, ports), seen)

    def _now(self, spec: LaunchSpec) -> Found:
        seen = marks(files_of(spec))  # first: what is written later is another file
        return examined(spec, settled=False), seen

    def _glance(self) -> int | None:
        with self._lock:
            return self._machine.glance(time.monotonic())

    def _memory(self) -> Memory:
        with self._lock:
            return self._machine.read(time.monotonic())

    def _measure_one(self, live: list[Launch], launch: Launch, now: float) -> None:
        with self._lock:
            self._measure(live, now, walk=launch)
            memory = self._machine.read(now)
        if memory.gpu is None:
            return  # no driver here shares the memory: what nobody owns up to came with somebody else
        before, holds = launch.unattributed_before, launch.held.committed or 0
        launch.unowned = 0  # worked out anew: one that sleeps has given it back
        seen = breakdown(memory, [instance(x, 0.0, 0) for x in live])
        if before is not None and seen is not None:
            came = seen.unattributed - before
            if came > max(UNOWNED_BYTES, holds * UNOWNED_SHARE):
                launch.unowned = came

    def _measure(self, launches: list[Launch], now: float, walk: Launch | None = None) -> None:
        stale = [x for x in launches if not x.ready or x is walk or now - x.pids_at >= TREE_SECONDS]
        trees = self._host.trees((x.process, x.id) for x in stale) if stale else {}
        for launch in launches:
            if launch.id in trees:
                launch.pids, launch.pids_at = trees[launch.id], now
        again = () if walk is None else (walk.id,)
        found = self._machine.held({x.id: x.pids for x in launches}, now, walk=again)
        for launch in launches:
            launch.held = found[launch.id]


def _lasts(found: Preflight) -> float:
    return HINDERED_SECONDS if found.reason is not None or found.ports_held else PREFLIGHT_SECONDS


def _named(memory: Memory, live: list[Launch]) -> Memory:
    """Return the figures with problems told by the names of models, and one for each of which nothing is known."""
    problems = list(memory.problems)
    for launch in live:
        problems = [problem.replace(launch.id, launch.model) for problem in problems]
    for launch in live:
        if launch.held.committed is None and not any(launch.model in problem for problem in problems):
            problems.append(f"what {launch.model} holds is unknown: its processes cannot be read")
    return replace(memory, problems=tuple(problems))
