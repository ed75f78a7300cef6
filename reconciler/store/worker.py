"""The store for the event loop: the same methods, run one at a time in a worker thread."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self, TypeVar

from anyio import CapacityLimiter, to_thread

from reconciler.core.types import LedgerEntry
from reconciler.store.errors import explained
from reconciler.store.ledger import EventRecord, Store
from reconciler.store.records import ArrivalBucket, EvictionRecord, LaunchRecord, LoadRecord, RequestRecord

T = TypeVar("T")


class AsyncStore:
    """A Store that never blocks the event loop. Calls are performed in the order they were made.

    A call that has begun is finished even when its task is cancelled. All methods raise StoreError when the file
    cannot be read or written; the next call tries anew.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._one_writer = CapacityLimiter(1)
        self._questions = CapacityLimiter(1)

    @classmethod
    async def open(cls, path: Path, *, boot_id: str | None = None) -> Self:
        """Open the store at `path` in a worker thread. Raises NewerSchemaError or StoreError."""

        def begin() -> Store:
            with explained(path, "opened"):
                return Store(path, boot_id=boot_id)

        return cls(await to_thread.run_sync(begin))

    @property
    def recovered(self) -> str | None:
        """A sentence when a damaged file was moved aside, else None."""
        return self._store.recovered

    async def close(self) -> None:
        """Wait for the calls before this one, then close."""
        await self._write(self._store.close)

    async def launches(self) -> tuple[LaunchRecord, ...]:
        """See Store.launches."""
        return await self._read(self._store.launches)

    async def put_launch(self, record: LaunchRecord) -> None:
        """See Store.put_launch."""
        await self._write(lambda: self._store.put_launch(record))

    async def drop_launch(self, launch_id: str) -> None:
        """See Store.drop_launch."""
        await self._write(lambda: self._store.drop_launch(launch_id))

    async def entries(self) -> tuple[LedgerEntry, ...]:
        """See Store.entries."""
        return await self._read(self._store.entries)

    async def put_entry(self, entry: LedgerEntry) -> None:
        """See Store.put_entry."""
        await self._write(lambda: self._store.put_entry(entry))

    async def add_event(self, at_wall: float, kind: str, model: str | None, reason: str, message: str) -> int:
        """See Store.add_event."""
        return await self._write(lambda: self._store.add_event(at_wall, kind, model, reason, message))

    async def events(self, after: int = 0, limit: int = 200) -> tuple[EventRecord, ...]:
        """See Store.events."""
        return await self._read(lambda: self._store.events(after, limit))

    async def generation(self, digest: str) -> int:
        """See Store.generation."""
        return await self._write(lambda: self._store.generation(digest))

    async def begin_run(self, at_wall: float) -> int:
        """See Runs.begin_run."""
        return await self._write(lambda: self._store.begin_run(at_wall))

    async def run_risk(self, run: int, risk: str) -> None:
        """See Runs.run_risk."""
        await self._write(lambda: self._store.run_risk(run, risk))

    async def end_run(self, run: int) -> None:
        """See Runs.end_run."""
        await self._write(lambda: self._store.end_run(run))

    async def leave_safe_mode(self, run: int, *, forget: bool) -> None:
        """See Runs.leave_safe_mode."""
        await self._write(lambda: self._store.leave_safe_mode(run, forget=forget))

    async def add_load(self, record: LoadRecord) -> int:
        """See Past.add_load."""
        return await self._write(lambda: self._store.add_load(record))

    async def add_eviction(self, record: EvictionRecord) -> int:
        """See Past.add_eviction."""
        return await self._write(lambda: self._store.add_eviction(record))

    async def wanted_again(self, eviction: int, seconds: float) -> None:
        """See Past.wanted_again."""
        await self._write(lambda: self._store.wanted_again(eviction, seconds))

    async def add_requests(self, batch: Iterable[RequestRecord]) -> int:
        """See Past.add_requests."""
        return await self._write(lambda: self._store.add_requests(batch))

    async def bump_arrivals(self, batch: Iterable[ArrivalBucket]) -> None:
        """See Past.bump_arrivals."""
        await self._write(lambda: self._store.bump_arrivals(batch))

    async def ask(self, question: Callable[[Store], T]) -> T:
        """Have a worker thread read whatever it takes to answer a question, one question at a time.

        It stands in the way of the calls above only while it fetches rows.
        """
        return await self._run(lambda: question(self._store), "read", self._questions)

    async def _read(self, call: Callable[[], T]) -> T:
        return await self._run(call, "read")

    async def _write(self, call: Callable[[], T]) -> T:
        return await self._run(call, "written")

    async def _run(self, call: Callable[[], T], action: str, limiter: CapacityLimiter | None = None) -> T:
        def explain() -> T:
            with explained(self._store.path, action):
                return call()

        return await to_thread.run_sync(explain, limiter=limiter or self._one_writer)
