"""One look at the machine: memory, process trees, files, and what clients want."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import anyio.to_thread

from reconciler.core import pressure
from reconciler.core.account import breakdown, warm_together
from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Memory, Watermarks
from reconciler.core.types import Demand, Instance, Manifest, Observation, Preflight, Reason
from reconciler.host import Host, Ports, is_free, listeners
from reconciler.leases import LeaseBook
from reconciler.loop import careful
from reconciler.loop.floor import FloorWatch
from reconciler.loop.guarded import Guarded
from reconciler.loop.launches import Launch, Launches, instance
from reconciler.loop.preflights import examine
from reconciler.memory.probe import MachineProbe

#: Files of a model nobody asks for are looked at again after this many seconds.
PREFLIGHT_SECONDS: Final = 30.0
#: Which processes a model that is ready consists of is found out this often; in between those known are measured.
TREE_SECONDS: Final = 30.0
#: Memory that came with a load and that nobody owns up to is charged to it where it is more than this, and more than
#: this share of what it holds.
UNOWNED_BYTES: Final = 1 << 30
UNOWNED_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Checked:
    spec: LaunchSpec
    at: float
    result: Preflight


class Observer:
    """Looks. Each look has the next sequence number."""

    def __init__(self, host: Host, machine: MachineProbe, launches: Launches, book: LeaseBook) -> None:
        self._host = host
        self._machine = Guarded(machine)
        self._launches = launches
        self._book = book
        self._seq = 0
        self._checked: dict[str, _Checked] = {}
        #: The probe remembers things and is asked from several worker threads.
        self._lock = threading.Lock()
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
        due = self._due(specs, now)
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
            preflights=tuple(c.result for _, c in sorted(self._checked.items())),
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

    def begin(self, launch: Launch) -> None:
        """Note how things are before a model is loaded."""
        launch.unattributed_before = self._unattributed
        checked = self._checked.get(launch.model)
        launch.build = checked.result.build if checked is not None else ""
        launch.weights = checked.result.weights if checked is not None else ""

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

    def _demands(self) -> tuple[Demand, ...]:
        """Return what clients want; the time of an unloading only where the next load may have to wait for it."""
        return tuple(
            d if d.closed is None or self._launches.rests(d.model) else replace(d, closed=None)
            for d in self._book.demands()
        )

    def _due(self, specs: Mapping[str, LaunchSpec], now: float) -> list[LaunchSpec]:
        asked = {d.model for d in self._book.demands() if d.waiting or d.wanted}
        due = []
        for name, spec in sorted(specs.items()):
            old = self._checked.get(name)
            fresh = old is not None and old.spec == spec and now - old.at < PREFLIGHT_SECONDS
            if not fresh or (name in asked and self._launches.serving(name) is None):
                due.append(spec)
        return due

    # -- in the worker thread -------------------------------------------------------------------------------------

    def _read(
        self, live: list[Launch], due: list[LaunchSpec], ports: Ports, now: float
    ) -> tuple[Memory, dict[str, _Checked]]:
        with self._lock:
            self._measure(live, now)
            memory = _named(self._machine.read(now), live)
        for model in sorted({x.model for x in live}):
            self._host.logs.trim(model)
        owners = {x.port: x.model for x in live}
        checked = {s.model: _Checked(s, now, preflight(s, owners, ports)) for s in due}
        return memory, checked

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


def _named(memory: Memory, live: list[Launch]) -> Memory:
    """Return the figures with problems told by the names of models, and one for each of which nothing is known."""
    problems = list(memory.problems)
    for launch in live:
        problems = [problem.replace(launch.id, launch.model) for problem in problems]
    for launch in live:
        if launch.held.committed is None and not any(launch.model in problem for problem in problems):
            problems.append(f"what {launch.model} holds is unknown: its processes cannot be read")
    return replace(memory, problems=tuple(problems))


def preflight(spec: LaunchSpec, owners: Mapping[int, str], ports: Ports) -> Preflight:
    """Return whether a model could be started now: its engine's opinion, and a port. Blocks.

    `owners` are the ports of our launches with the model each belongs to: a model's own old process gives its port
    back before the new one needs it, and so does every other process of ours that must make room first.
    """
    try:
        result = examine(spec)
    except Exception as error:  # an adapter that breaks its promise hinders its own models, and nobody else's
        careful.get(spec.engine).note("preflight", error)
        return Preflight(spec.model, reason=Reason.NOT_STARTABLE, message=careful.fault(error))
    if result.reason is not None:
        return result
    if spec.port is not None:
        problem = _port_problem(spec.port, spec.model, owners)
        return replace(result, reason="PortBusy", message=problem) if problem else result
    in_range = any(ports.first <= port <= ports.last for port in owners)
    if not in_range and not ports.any_free():
        text = f"no port of {ports.first}-{ports.last} is free: widen machine.ports"
        return replace(result, reason="PortBusy", message=text)
    return result


def _port_problem(port: int, model: str, owners: Mapping[int, str]) -> str | None:
    owner = owners.get(port)
    if owner == model or (owner is None and is_free(port)):
        return None
    if owner is not None:
        return f"port {port} is in use by our model {owner}: give one of the two another port"
    held = listeners(port)
    who = f"pid {held[0].pid}" if held and held[0].pid else "another program"
    return f"port {port} is in use by {who}: stop it, or leave `port` out to have one chosen"
