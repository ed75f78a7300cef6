"""The file is lost, ruined or held by somebody else while it is in use: what must outlive it does."""

import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from reconciler.core.types import LedgerEntry
from reconciler.store import AsyncStore, LaunchRecord, Store, StoreError
from reconciler.store import worker as module

pytestmark = pytest.mark.anyio

LAUNCH = LaunchRecord("a", "chat", "d", 41, 7, 18100, "boot", ready=True, last_used=5.0)
ENTRY = LedgerEntry("chat", "d", peak=99, load_seconds=2.5)


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncStore]:
    """A store with a launch, an entry, an event and the second generation of a manifest in it."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    made = await AsyncStore.open(tmp_path / "ledger.db")
    await made.generation("w")
    await made.generation("x")
    await made.put_launch(LAUNCH)
    await made.put_entry(ENTRY)
    await made.add_event(1.0, "load", "chat", "Pinned", "before")
    yield made
    await made.close()


def stands(path: Path, *events: str) -> None:
    """Check what the file itself holds."""
    with Store(path) as again:
        assert again.recovered is None
        assert again.launches() == (LAUNCH,)
        assert again.entries() == (ENTRY,)
        assert again.generation("x") == 2
        assert tuple(e.message for e in again.events()) == events


def damage() -> sqlite3.DatabaseError:
    """Return what SQLite says of a file that is ruined."""
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def remove(folder: Path, pattern: str) -> None:
    """Remove files."""
    for file in folder.glob(pattern):
        file.unlink()


@pytest.mark.parametrize("how", ["removed", "with its journal", "moved", "replaced"])
async def test_a_file_that_is_gone_is_written_anew_whole(store: AsyncStore, tmp_path: Path, how: str) -> None:
    path = tmp_path / "ledger.db"
    if how == "moved":
        path.rename(tmp_path / "elsewhere")
    elif how == "replaced":
        (tmp_path / "other").write_text("somebody else's")
        (tmp_path / "other").rename(path)
    else:
        remove(tmp_path, "ledger.db*" if how == "with its journal" else "ledger.db")
    await store.add_event(2.0, "load", "chat", "Pinned", "after")
    [said] = store.news()
    assert said.startswith(f"ledger.db was {'replaced' if how == 'replaced' else 'removed'}"), said
    assert said.endswith("all of it was written anew")
    assert store.news() == []
    stands(path, "before", "after")
    assert (tmp_path / "ledger.db.corrupt-1").exists() == (how == "replaced")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", [None, 0])
async def test_a_ruined_file_is_put_aside_and_what_matters_written_again(
    store: AsyncStore, tmp_path: Path, size: int | None
) -> None:
    """All of the file is garbage, or it is emptied; the connection itself may not have noticed."""
    path = tmp_path / "ledger.db"
    await store.ask(
        lambda s: s._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    )  # else all is in the journal
    path.write_bytes(b"\xa5" * path.stat().st_size if size is None else b"")
    await store.catch_up()
    [said] = store.news()
    assert "ledger.db.corrupt-1" in said
    assert said.endswith("a new one was begun with what is known of the models")
    await store.add_event(2.0, "load", "chat", "Pinned", "after")
    stands(path, "after")


async def test_a_question_that_meets_damage_is_answered_from_what_is_known(
    store: AsyncStore, tmp_path: Path
) -> None:
    def broken(_: Store) -> None:
        if not asked:
            asked.append(True)
            raise damage()

    asked: list[bool] = []
    await store.ask(broken)
    assert "was damaged (database disk image is malformed)" in store.news()[0]
    assert await store.launches() == (LAUNCH,)


async def test_a_question_that_meets_damage_waits_for_who_writes_just_then(
    store: AsyncStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write what waits, and neither may take from the other what it is just writing."""
    put, writes, go_on, met = Store.put_launch, threading.Event(), threading.Event(), threading.Event()
    answered = anyio.Event()

    def slow(self: Store, record: LaunchRecord) -> None:
        put(self, record)
        if not writes.is_set():
            writes.set()
            assert go_on.wait(10)

    def broken(_: Store) -> None:
        if not met.is_set():
            met.set()
            raise damage()

    async def ask() -> None:
        await store.ask(broken)
        answered.set()

    monkeypatch.setattr(Store, "put_launch", slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.put_launch, replace(LAUNCH, launch_id="b"))
        assert await anyio.to_thread.run_sync(writes.wait, 10)
        tasks.start_soon(ask)
        assert await anyio.to_thread.run_sync(met.wait, 10)
        with anyio.move_on_after(0.5):  # it would be answered by now if it did not wait
            await answered.wait()
        waited = not answered.is_set()
        go_on.set()
    assert waited
    assert [r.launch_id for r in await store.launches()] == ["a", "b"]


async def test_what_cannot_be_written_while_another_holds_the_file_is_written_afterwards(
    store: AsyncStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    with pytest.raises(StoreError, match="locked"):
        await store.add_event(2.0, "load", "chat", "Pinned", "first")
    waited = time.monotonic() - began
    for number in range(20):
        with pytest.raises(StoreError, match="locked"):
            await store.add_event(3.0, "load", "chat", "Pinned", str(number))
    with pytest.raises(StoreError, match="locked"):
        await store.drop_launch("a")
    assert waited < 3
    assert time.monotonic() - began < waited + 1, "each of them waited for the lock"
    assert await store.launches() == (LAUNCH,), "reading goes on"
    other.execute("ROLLBACK")
    other.close()
    monkeypatch.setattr(store, "_again_at", 0.0)
    await store.catch_up()
    assert await store.launches() == ()
    texts = [event.message for event in await store.events()]
    assert texts == ["before", "first", *map(str, range(20))]
    assert store.news() == []


async def test_where_no_new_file_can_be_begun_nothing_is_lost_either(
    store: AsyncStore, tmp_path: Path
) -> None:
    """Something that is no file lies in its place for a while."""
    path = tmp_path / "ledger.db"
    remove(tmp_path, "ledger.db*")
    path.mkdir()
    (path / "full").touch()
    (tmp_path / "ledger.db.corrupt-1").mkdir()
    await store.add_event(2.0, "load", "chat", "Pinned", "after")
    assert "it is kept as ledger.db.corrupt-2" in store.news()[0]
    stands(path, "before", "after")


async def test_a_file_that_may_not_be_written_any_more_is_read_on_and_written_later(
    store: AsyncStore, tmp_path: Path
) -> None:
    await store.ask(lambda s: s._db.execute("PRAGMA query_only = ON"))  # what SQLite says of a read-only disk
    for change in (store.drop_launch("a"), store.add_event(2.0, "load", "chat", "Pinned", "after")):
        with pytest.raises(StoreError, match="readonly"):
            await change
    assert await store.launches() == (LAUNCH,)
    await store.ask(lambda s: s._db.execute("PRAGMA query_only = OFF"))
    await store.catch_up()
    assert await store.launches() == ()
    assert [event.message for event in await store.events()] == ["before", "after"]
    assert store.news() == []


async def test_no_number_stands_for_two_manifests(
    store: AsyncStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes that were counted while nothing could be written are counted in the file, too, before the next is."""
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for digest in ("y", "z"):  # shown as generations 3 and 4
        with pytest.raises(StoreError):
            await store.generation(digest)
    other.execute("ROLLBACK")
    other.close()
    monkeypatch.setattr(store, "_again_at", 0.0)
    await store.catch_up()
    with Store(tmp_path / "ledger.db") as again:
        assert again.generation("z") == 4
    assert await store.generation("x") == 5
