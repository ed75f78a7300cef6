"""The simulated machine: which models are in memory, and what an observer would see of them."""

from dataclasses import replace

from reconciler.core import book
from reconciler.core.leaving import DISPLACING
from reconciler.core.memory import Memory
from reconciler.core.types import Instance, LedgerEntry, Load, Observation, Reason
from reconciler.leases import Endpoint
from reconciler.simulate.doors import Doors
from reconciler.simulate.layout import Layout


class Desk:
    """Models come and go; each holds what it is charged."""

    def __init__(self, layout: Layout, now: float) -> None:
        self._memory = layout.memory
        self._preflights = layout.preflights
        self._specs = {spec.name: spec for spec in layout.manifest.models}
        self._entries = {(e.model, e.digest): e for e in layout.ledger}
        for name, speed in sorted(layout.speeds.items()):
            if name in self._specs:
                key = (name, self._specs[name].digest)
                known = self._entries.get(key) or LedgerEntry(*key)
                self._entries[key] = replace(known, load_seconds=speed.load)
        self.ledger = tuple(entry for _, entry in sorted(self._entries.items()))
        found = {p.model: p for p in layout.preflights}
        self.sizes = {
            name: book.size(spec, found.get(name), self._entries.get((name, spec.digest)))
            for name, spec in sorted(self._specs.items())
        }
        #: What models can hold together beside all else that is in memory.
        self.budget = book.capacity(layout.manifest, layout.memory, ()) or 0
        self._running: dict[str, Instance] = {}
        self._displaced: set[str] = set()
        self._seq = 0
        self._pids = 0
        #: When each model was in memory, the last stay still open (its end is nan).
        self.stays: dict[str, list[tuple[float, float]]] = {name: [] for name in self.sizes}
        #: Byte seconds held so far, the bytes held now and since when, and the most.
        self.held_seconds, self.held, self._since, self.most = 0.0, 0, now, 0

    def look(self, doors: Doors, now: float) -> Observation:
        """Return what an observer would see."""
        self._seq += 1
        running = []
        for name, instance in sorted(self._running.items()):
            if instance.ready:
                page = doors.page(name)
                last_used = page.last_used or instance.loaded_at
                if (last_used, page.served) != (instance.last_used, instance.served):
                    instance = replace(instance, last_used=last_used, served=page.served)
                    self._running[name] = instance
            running.append(instance)
        return Observation(
            self._seq, now, self._seen_memory(), tuple(running), doors.demands(), self._preflights
        )

    def _seen_memory(self) -> Memory:
        available = self._memory.available
        return replace(self._memory, available=None if available is None else max(0, available - self.held))

    def begin(self, step: Load, now: float) -> None:
        """Begin a load: its bytes are taken from now on."""
        self._pids += 1
        size = self.sizes[step.model] or 0
        self._hold(size, now)
        self._running[step.model] = Instance(
            step.model,
            step.digest,
            pid=self._pids,
            started=0,
            port=0,
            ready=False,
            committed=size,
            warm=0,
            loaded_at=now,
            last_used=now,
            admitted=size,
            returned=step.model in self._displaced,
        )

    def ready(self, model: str, now: float) -> None:
        """End a load: the model serves."""
        self._running[model] = replace(self._running[model], ready=True, loaded_at=now, last_used=now)
        self.stays[model].append((now, float("nan")))

    def endpoint(self, model: str) -> Endpoint:
        """Return where a model is served: a new address for each process."""
        return Endpoint(model, f"simulated:{self._running[model].pid}")

    def end(self, model: str, now: float, displaced: Reason | None = None) -> None:
        """Take a model out of memory, loaded or not."""
        instance = self._running.pop(model)
        self._hold(-(instance.committed or 0), now)
        if displaced in DISPLACING:
            self._displaced.add(model)
        if instance.ready:
            began, _ = self.stays[model].pop()
            self.stays[model].append((began, now))

    def close(self, now: float) -> None:
        """End the account."""
        self._hold(0, now)

    def _hold(self, more: int, now: float) -> None:
        self.held_seconds += self.held * (now - self._since)
        self._since = now
        self.held += more
        self.most = max(self.most, self.held)
