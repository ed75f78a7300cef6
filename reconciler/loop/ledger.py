"""The ledger in memory: entries by launch, written through to the store when they change."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from reconciler.core import book
from reconciler.core.starved import eased
from reconciler.core.types import Instance, LedgerEntry
from reconciler.loop.keeper import Keeper
from reconciler.store import AsyncStore


class Ledger:
    """What is remembered of every launch. Peaks are written when they grew noticeably, the rest at once."""

    #: A peak that grew by less than this is not worth a write; it is written with the next change.
    NOTICEABLE = 8 << 20

    def __init__(self, store: AsyncStore, keeper: Keeper) -> None:
        self._store = store
        self._keeper = keeper
        self._entries: dict[tuple[str, str], LedgerEntry] = {}
        self._written: dict[tuple[str, str], LedgerEntry] = {}

    async def load(self, now: float) -> None:
        """Read what earlier runs knew."""
        known = (book.resumed(entry, now) for entry in await self._store.entries())
        self._entries = {(e.model, e.digest): e for e in known}
        self._written = dict(self._entries)

    def entry(self, model: str, digest: str) -> LedgerEntry:
        """Return what is known of a launch; an empty entry if nothing is."""
        return self._entries.get((model, digest)) or LedgerEntry(model, digest)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return all entries, sorted."""
        return tuple(e for _, e in sorted(self._entries.items()))

    def update(self, entry: LedgerEntry) -> None:
        """Replace what is known of a launch; `flush` writes it."""
        self._entries[entry.model, entry.digest] = entry

    def measure(self, instances: Iterable[Instance], answered: Callable[[str], int], now: float) -> None:
        """Take over what running models hold now, and forget the failures of those that have proved stable.

        `answered` tells how many requests a model has answered since it was opened.
        """
        for key, entry in self._entries.items():
            self._entries[key] = eased(entry, now)
        for instance in instances:
            # One that is suspected may have been for as long as it runs: that it runs is no proof.
            if instance.broken or instance.hung or instance.suspect:
                continue
            entry = book.measured(self.entry(instance.model, instance.digest), instance)
            if instance.ready:
                entry = book.stable(entry, now - instance.loaded_at, answered(instance.model))
            if entry != self._entries.get((entry.model, entry.digest)):
                self.update(entry)

    def forgive(self, change: Callable[[LedgerEntry], LedgerEntry], model: str) -> None:
        """Apply `change` to all entries of a model."""
        for key, entry in list(self._entries.items()):
            if entry.model == model:
                self._entries[key] = change(entry)

    async def flush(self) -> None:
        """Write what changed; what could not be written is tried again at the next turn."""
        for key, entry in sorted(self._entries.items()):
            old = self._written.get(key)
            if (
                old is None
                or replace(entry, peak=old.peak) != old
                or entry.peak - old.peak >= self.NOTICEABLE
            ):
                if not await self._keeper.keep(self._store.put_entry(entry)):
                    return
                self._written[key] = entry
