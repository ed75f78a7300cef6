"""The manifest in force: taken in, counted, and made known to those who live by it."""

from collections.abc import Callable
from dataclasses import replace

from reconciler.core.types import ModelSpec, Residency
from reconciler.leases import LeaseBook
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.states import States
from reconciler.manifest import Applied, ManifestError
from reconciler.store import AsyncStore, StoreError


class Desired:
    """What is wanted. Others only leave a new reading; the loop's task takes it."""

    def __init__(
        self,
        applied: Applied,
        *,
        store: AsyncStore,
        keeper: Keeper,
        journal: Journal,
        book: LeaseBook,
        ports: Callable[[tuple[int, int]], None],
        hide: Callable[[tuple[str, ...]], None],
        states: States,
    ) -> None:
        self.applied = applied
        #: What was wrong with a newer manifest, a line each; empty = the newest is in force.
        self.refused: tuple[str, ...] = ()
        self._incoming: Applied | ManifestError | None = None
        #: The newest settings of every model that a manifest of this run has named.
        self._known: dict[str, ModelSpec] = {}
        self._store, self._keeper, self._journal, self._book = store, keeper, journal, book
        self._ports = ports
        self._hide = hide
        self._states = states

    def leave(self, reading: Applied | ManifestError) -> None:
        """Leave a new reading of the manifest."""
        self._incoming = reading

    async def take(self) -> None:
        """Put what was left in force, or note why it is refused."""
        reading, self._incoming = self._incoming, None
        if isinstance(reading, ManifestError):
            self.refused = await self._journal.refused(reading, self.applied.manifest.generation)
        elif reading is not None:
            was_refused, self.refused = bool(self.refused), ()
            await self.apply(reading, was_refused=was_refused)

    async def apply(self, applied: Applied, *, was_refused: bool = False) -> None:
        """Put a manifest in force. Processes are not touched: the next plan sees to them."""
        generation = await self._count(applied)
        changed = generation != self.applied.manifest.generation
        self.applied = replace(applied, manifest=replace(applied.manifest, generation=generation))
        self._known |= {m.name: m for m in applied.manifest.models}
        self._ports(applied.ports)
        self._hide(applied.gateway.key_variables)
        self._states.use(applied.states, applied.state_disk)
        await self._states.tidy(applied.launches)
        transient = [m.name for m in applied.manifest.models if m.residency is Residency.TRANSIENT]
        limits = {name: limit.queue for name, limit in applied.limits.items()}
        gates = {name: gate.limit for name, gate in applied.gateway.gates.items()}
        self._book.configure(limits, tell_idle=frozenset(transient), gates=gates)
        if changed:
            await self._journal.applied(self.applied)
        elif was_refused:
            await self._journal.repaired(generation)

    def spec(self, model: str) -> ModelSpec | None:
        """Return the settings in force of a model, or None if the manifest does not name it."""
        return next((m for m in self.applied.manifest.models if m.name == model), None)

    def promised(self, model: str) -> ModelSpec:
        """Return the newest settings of a model: one that was removed gets the time it was promised before."""
        return self._known.get(model) or ModelSpec(model, "")

    async def _count(self, applied: Applied) -> int:
        """Return the generation of a manifest. Counting goes on from memory while the ledger cannot be written."""
        try:
            return await self._store.generation(applied.digest)
        except StoreError as error:
            self._keeper.failed(error)
            return self.applied.manifest.generation + (applied.digest != self.applied.digest)
