"""The store for the event loop: the same methods, run one at a time in a worker thread."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeVar

from anyio import CapacityLimiter, to_thread

from reconciler.core.types import LedgerEntry
from reconciler.store.database import is_damage
from reconciler.store.errors import StoreError, explained
from reconciler.store.ledger import EventRecord, Store
from reconciler.store.mirror import Event, Mirror
from reconciler.store.records import ArrivalBucket, EvictionRecord, LaunchRecord, LoadRecord, RequestRecord

T = TypeVar("T")

#: Seconds in which a file is not tried again that another program held.
AGAIN_SECONDS: Final = 2.0
#: Seconds between two looks at what lies on the disk, if it has changed.
LOOK_SECONDS: Final = 10.0
_HELD: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def _opened(path: Path, boot_id: str | None) -> tuple[Store, Mirror]:
    with explained(path, "opened"):
        store = Store(path, boot_id=boot_id)
        return store, Mirror(store)


def _nothing() -> None:
    """Do nothing."""


class AsyncStore:
    """A Store that never blocks the event loop. Calls are performed in the order they were made.

    A call that has begun is finished even when its task is cancelled. All methods raise StoreError when the file
    cannot be read or written; the next call tries anew. Launches and events that could not be written are kept, and
    written before anything else once that is possible. A file that is removed, emptied, replaced or damaged meanwhile
    is begun anew with what is known: `news` tells.
    """

    def __init__(self, store: Store, mirror: Mirror) -> None:
        self._store, self._mirror = store, mirror
        #: Held by whoever writes what waits: a writer, or a question that met damage and has the file begun anew.
        self._writing = threading.RLock()
        #: Until when nothing is tried (another program held the file for long), and what was wrong with it.
        self._again_at, self._why = float("-inf"), ""
        self._looked_at = time.monotonic()
        self._news: list[str] = []
        self._one_writer = CapacityLimiter(1)
        self._questions = CapacityLimiter(1)

    @classmethod
    async def open(cls, path: Path, *, boot_id: str | None = None) -> Self:
        """Open the store at `path` in a worker thread. Raises NewerSchemaError or StoreError."""

        store = await to_thread.run_sync(lambda: _opened(path, boot_id))
        return cls(*store)

    @property
    def recovered(self) -> str | None:
        """A sentence when a damaged file was moved aside, else None."""
        return self._store.recovered

    def news(self) -> list[str]:
        """Return what became of the file itself since the last call, a sentence each."""
        news, self._news = self._news, []
        return news

    async def catch_up(self) -> None:
        """Look after the file, and write what waits. Cheap where nothing is wrong."""
        await self._write(self._look)

    async def close(self) -> None:
        """Wait for the calls before this one, write what waits as far as that is possible, then close."""
        with suppress(StoreError):
            await self._write(lambda: None, patient=True)
        await self._run(self._store.close, "written")

    async def launches(self) -> tuple[LaunchRecord, ...]:
        """See Store.launches."""
        return await self._read(self._store.launches)

    async def put_launch(self, record: LaunchRecord) -> None:
        """See Store.put_launch."""
        await self._write(lambda: None, note=lambda: self._mirror.launch(record.launch_id, record))

    async def drop_launch(self, launch_id: str) -> None:
        """See Store.drop_launch."""
        await self._write(lambda: None, note=lambda: self._mirror.launch(launch_id, None))

    async def entries(self) -> tuple[LedgerEntry, ...]:
        """See Store.entries."""
        return await self._read(self._store.entries)

    async def put_entry(self, entry: LedgerEntry) -> None:
        """See Store.put_entry."""
        await self._write(lambda: self._store.put_entry(entry), note=lambda: self._mirror.entry(entry))

    async def add_event(self, at_wall: float, kind: str, model: str | None, reason: str, message: str) -> int:
        """See Store.add_event."""
        event = Event(at_wall, kind, model, reason, message)
        return await self._write(
            lambda: self._store.add_event(*event), failed=lambda: self._mirror.event(event)
        )

    async def events(self, after: int = 0, limit: int = 200) -> tuple[EventRecord, ...]:
        """See Store.events."""
        return await self._read(lambda: self._store.events(after, limit))

    async def generation(self, digest: str) -> int:
        """See Store.generation. What could not be counted in the file is, before the next is."""

        def count() -> int:
            number = self._store.generation(digest)
            self._mirror.generation(number, digest)
            return number

        return await self._write(count, failed=lambda: self._mirror.count(digest))

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
        return await self._read(lambda: question(self._store), self._questions)

    # -- in the worker thread ----------------------------------------------------------------------------------------

    async def _read(self, call: Callable[[], T], limiter: CapacityLimiter | None = None) -> T:
        def read() -> T:
            try:
                return call()
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                self._renew(f"was damaged ({error})", save=False)
                return call()

        return await self._run(read, "read", limiter)

    async def _write(
        self,
        call: Callable[[], T],
        *,
        note: Callable[[], None] = _nothing,
        failed: Callable[[], None] = _nothing,
        patient: bool = False,
    ) -> T:
        """Write what waits, then `call`. `note` comes before all, `failed` if it was in vain.

        A file that another program held for long is left alone for a while, unless one is `patient`.
        """

        def write() -> T:
            note()
            if not patient and time.monotonic() < self._again_at:
                failed()
                raise StoreError(self._why)
            try:
                with explained(self._store.path, "written"):
                    return self._attempt(call)
            except StoreError as error:
                failed()
                if _busy(error.__cause__):
                    self._again_at, self._why = time.monotonic() + AGAIN_SECONDS, str(error)
                raise

        return await self._run(write, "written")

    def _attempt(self, call: Callable[[], T]) -> T:
        with self._writing:
            if why := self._store.astray():
                self._renew(why, save="emptied" not in why)
            try:
                self._mirror.write(self._store)
                return call()
            except sqlite3.Error as error:
                if is_damage(error):  # the caller tries again: what it writes may be gone by now
                    self._renew(f"was damaged ({error})", save=False)
                raise

    def _look(self) -> None:
        """Read the file as it lies on the disk now and then: a connection may not notice for long that it is ruined."""
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            if why := self._store.damage():
                self._renew(f"was damaged ({why})", save=False)

    def _renew(self, why: str, *, save: bool) -> None:
        with self._writing:
            self._mirror.lost()
            self._news.append(self._store.renew(why, save=save))
            self._mirror.write(self._store)

    async def _run(self, call: Callable[[], T], action: str, limiter: CapacityLimiter | None = None) -> T:
        def explain() -> T:
            if self._store.gone and action == "read":
                raise StoreError(
                    f"the ledger {self._store.path} cannot be {action}: it could not be begun anew yet"
                )
            with explained(self._store.path, action):
                return call()

        return await to_thread.run_sync(explain, limiter=limiter or self._one_writer)


def _busy(error: BaseException | None) -> bool:
    """Return whether another program holds the file: each try waits for it."""
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in _HELD
