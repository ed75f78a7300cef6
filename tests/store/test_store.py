"""The store: what is written comes back, in this boot and the next, from whole and from damaged files."""

import resource
import sqlite3
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.boot import boot_id
from reconciler.core.crashes import FailureKind
from reconciler.core.memory import Said
from reconciler.core.types import LedgerEntry
from reconciler.store import AsyncStore, LaunchRecord, NewerSchemaError, Store, StoreError, peek, state_dir
from reconciler.store.schema import MIGRATIONS, TABLES, DamagedError


def record(launch_id: str = "a1", **changes: object) -> LaunchRecord:
    fields: dict[str, object] = {
        "launch_id": launch_id,
        "model": "chat",
        "digest": "d1",
        "pid": None,
        "started": None,
        "port": 18100,
        "boot_id": "boot",
        "ready": False,
        "created": 1000.0,
    }
    return LaunchRecord(**{**fields, **changes})  # type: ignore[arg-type]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_launches_are_replaced_by_id_and_dropped(tmp_path: Path) -> None:
    with Store(tmp_path / "ledger.db") as store:
        store.put_launch(record("b", created=2.0))
        store.put_launch(record("a", created=3.0))
        complete = record("b", created=2.0, pid=41, started=977, ready=True)
        store.put_launch(complete)
        assert store.launches() == (complete, record("a", created=3.0))
        store.drop_launch("b")
        store.drop_launch("never there")
    with Store(tmp_path / "ledger.db") as store:
        assert store.launches() == (record("a", created=3.0),)


@given(
    st.builds(
        LedgerEntry,
        model=st.text(min_size=1).filter(
            lambda s: s.encode("utf-8", "ignore").decode() == s and "\0" not in s
        ),
        digest=st.just("d"),
        peak=st.integers(0, 2**62),
        failures=st.integers(0, 1000),
        retry_at=st.none() | st.floats(0, 1e9),
        weights=st.sampled_from(["", "w1"]),
        last_error=st.text(st.characters(exclude_categories=["Cs"])),
        load_seconds=st.none() | st.floats(0, 1e6),
        kind=st.none() | st.sampled_from(FailureKind),
        raised=st.integers(0, 2**62),
        raised_until=st.none() | st.floats(0, 1e9),
    )
)
def test_any_entry_comes_back_equal(tmp_path_factory: pytest.TempPathFactory, entry: LedgerEntry) -> None:
    path = tmp_path_factory.getbasetemp() / "any.db"
    with Store(path) as store:
        store.put_entry(entry)
        assert entry in store.entries()


def test_entries_are_keyed_by_model_and_digest_and_sorted(tmp_path: Path) -> None:
    with Store(tmp_path / "ledger.db") as store:
        store.put_entry(LedgerEntry("b", "d2", peak=1))
        store.put_entry(LedgerEntry("b", "d1", peak=2))
        store.put_entry(LedgerEntry("a", "d9", peak=3))
        store.put_entry(LedgerEntry("b", "d2", peak=4))
        assert [(e.model, e.digest, e.peak) for e in store.entries()] == [
            ("a", "d9", 3),
            ("b", "d1", 2),
            ("b", "d2", 4),
        ]


@pytest.mark.parametrize(
    ("written", "read", "expected"),
    [
        ("boot-1", "boot-1", 812.5),
        ("boot-1", "boot-2", None),
        ("", "", None),  # a system that cannot name its boot: never trust its old clock
    ],
)
def test_retry_time_lives_as_long_as_its_clock(
    tmp_path: Path, written: str, read: str, expected: float | None
) -> None:
    entry = LedgerEntry("chat", "d", failures=3, retry_at=812.5, last_error="exit 1")
    with Store(tmp_path / "ledger.db", boot_id=written) as store:
        store.put_entry(entry)
    with Store(tmp_path / "ledger.db", boot_id=read) as store:
        (loaded,) = store.entries()
    assert (loaded.retry_at, loaded.failures, loaded.last_error) == (expected, 3, "exit 1")


def test_events_are_paged_and_bounded(tmp_path: Path) -> None:
    with Store(tmp_path / "ledger.db", event_limit=5) as store:
        assert store.last_event() == 0
        ids = [
            store.add_event(float(n), "load", None if n == 8 else "chat", "Pinned", f"m{n}") for n in range(9)
        ]
        assert ids == list(range(1, 10))
        assert [e.id for e in store.events()] == [5, 6, 7, 8, 9]
        assert store.last_event() == 9
        first = store.events(after=6, limit=2)
        assert [(e.id, e.at, e.model, e.message) for e in first] == [
            (7, 6.0, "chat", "m6"),
            (8, 7.0, "chat", "m7"),
        ]
        assert [e.model for e in store.events(after=8)] == [None]
    with Store(tmp_path / "ledger.db") as store:
        assert store.add_event(1.0, "load", None, "Pinned", "") == 10  # ids are never used twice


def test_generation_counts_changes_only(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Store(path) as store:
        assert [store.generation(d) for d in ("x", "x", "y", "x", "x")] == [1, 1, 2, 3, 3]
    with Store(path) as store:
        assert store.generation("x") == 3
        assert store.generation("z") == 4


def test_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch(mode=0o644)
    path.chmod(0o644)
    with Store(path) as store:
        store.generation("x")
        assert {p.name: mode(p) for p in tmp_path.iterdir()} == {
            "ledger.db": 0o600,
            "ledger.db-wal": 0o600,
            "ledger.db-shm": 0o600,
        }
    made = state_dir(tmp_path / "new" / "state")
    assert mode(made) == 0o700


def test_state_dir_is_only_made_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RECONCILE_STATE_DIR", raising=False)
    path = state_dir(create=False)
    assert path.name == "reconciler"
    assert list(tmp_path.iterdir()) == []
    assert state_dir() == path
    assert path.is_dir()


def test_the_environment_names_the_state_dir_where_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "users"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for said, meant in [("/named/s", "/named/s"), ("~/s", f"{tmp_path}/home/s"), ("s", f"{tmp_path}/s")]:
        monkeypatch.setenv("RECONCILE_STATE_DIR", said)
        assert state_dir(create=False) == Path(meant)
    assert state_dir(tmp_path / "other", create=False) == tmp_path / "other"
    monkeypatch.setenv("RECONCILE_STATE_DIR", "")
    assert state_dir(create=False).is_relative_to(tmp_path / "users")


def test_a_state_dir_that_cannot_be_one_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "gone").symlink_to("nowhere")
    for create in (False, True):
        with pytest.raises(OSError, match=r"^the state directory /.*/file is not a directory$"):
            state_dir(tmp_path / "file", create=create)
        with pytest.raises(OSError, match=r"/file/s cannot be there: /.*/file is not a directory$"):
            state_dir(tmp_path / "file" / "s", create=create)
    assert state_dir(tmp_path / "new" / "s", create=False) == tmp_path / "new" / "s"


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database, but long enough to be read as one" * 100)


def torn_pages(path: Path) -> None:
    with Store(path) as store:
        for n in range(300):
            store.add_event(1.0, "load", "chat", "Pinned", "x" * 200 + str(n))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 8192))


def test_what_a_peak_was_measured_with_is_kept(tmp_path: Path) -> None:
    said = Said(weights=10 << 30, context=1 << 30, compute=300 << 20, context_tokens=8192)
    entry = LedgerEntry("chat", "d", peak=12 << 30, load_seconds=9.5, build="llama 1234", said=said)
    with Store(tmp_path / "ledger.db") as store:
        store.put_entry(entry)
    with Store(tmp_path / "ledger.db") as store:
        assert store.entries() == (entry,)


def test_a_ledger_of_the_first_version_keeps_its_peaks(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    db = sqlite3.connect(path)
    db.executescript(MIGRATIONS[0])
    db.execute("INSERT INTO ledger VALUES ('chat', 'd', 7, 2, NULL, '', 'exit 1', 3.5)")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    with Store(path) as store:
        assert store.recovered is None
        [entry] = store.entries()
    assert entry == LedgerEntry("chat", "d", 7, 2, None, "exit 1", 3.5)


def test_launches_of_the_second_version_are_awake_and_of_unknown_weights(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    db = sqlite3.connect(path)
    db.executescript("".join(MIGRATIONS[:2]))
    db.execute("INSERT INTO launches VALUES ('a1', 'chat', 'd1', 7, 1, 18100, 'boot', 1, 1000.0, 5)")
    db.execute("PRAGMA user_version = 2")
    db.commit()
    db.close()
    with Store(path) as store:
        known = record(pid=7, started=1, ready=True, admitted=5)
        assert store.launches() == (known,)
        slept = record(
            pid=7, started=1, ready=True, asleep=True, weights="w1", committed_at_ready=9, served=3
        )
        store.put_launch(slept)
        assert store.launches() == (slept,)
    assert (known.asleep, known.weights, known.committed_at_ready, known.served) == (False, "", None, 0)


def lost_table(path: Path) -> None:
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("DROP TABLE ledger")
    db.close()


def wrong_version(path: Path) -> None:
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 0")
    db.close()


@pytest.mark.parametrize("damage", [garbage, torn_pages, lost_table, wrong_version])
def test_a_damaged_file_is_moved_aside(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "ledger.db"
    (tmp_path / "ledger.db.corrupt-1").write_text("an older one")
    damage(path)  # type: ignore[operator]
    with Store(path) as store:
        assert store.recovered is not None
        assert "ledger.db.corrupt-2" in store.recovered
        assert store.entries() == ()
        assert store.generation("x") == 1
    assert (tmp_path / "ledger.db.corrupt-1").read_text() == "an older one"
    assert (tmp_path / "ledger.db.corrupt-2").stat().st_size > 0
    with Store(path) as store:
        assert store.recovered is None


def test_a_newer_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(NewerSchemaError, match="99"):
        Store(path)
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.db"]


def test_an_older_database_is_migrated_with_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.db"
    with Store(path) as store:
        store.put_launch(record())
    later = (*MIGRATIONS, "CREATE TABLE later (x INTEGER) STRICT;")
    monkeypatch.setattr("reconciler.store.schema.MIGRATIONS", later)
    monkeypatch.setattr("reconciler.store.schema.TABLES", TABLES | {"later"})
    with Store(path) as store:
        assert store.recovered is None
        assert store.launches() == (record(),)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (len(later),)
    db.close()


def test_a_failed_migration_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.db"
    with Store(path) as store:
        store.put_launch(record())
    before = path.read_bytes()
    monkeypatch.setattr(
        "reconciler.store.schema.MIGRATIONS", (*MIGRATIONS, "CREATE TABLE later (x INTEGER); SELECT nothing;")
    )
    with pytest.raises(DamagedError, match="nothing"):
        Store(path)
    assert (tmp_path / "ledger.db.corrupt-1").read_bytes() == before


def test_a_failed_write_leaves_nothing_half_done(tmp_path: Path) -> None:
    with Store(tmp_path / "ledger.db") as store:
        store.put_launch(record("a"))
        with pytest.raises(sqlite3.IntegrityError):
            store.put_launch(record("b", port=None))
        store.put_launch(record("c"))
        assert [r.launch_id for r in store.launches()] == ["a", "c"]


def test_peek_sees_everything_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Store(path) as store:
        store.put_entry(LedgerEntry("chat", "d", peak=7))
        store.generation("x")
        before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        assert "ledger.db-wal" in before  # the rows are still in the journal
        with peek(path) as copy:
            assert copy.entries() == (LedgerEntry("chat", "d", peak=7),)
            assert (copy.generation("x"), copy.generation("y")) == (1, 2)
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
        assert store.generation("x") == 1
    with peek(tmp_path / "absent.db") as copy:
        assert copy.entries() == ()
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.db"]


def test_this_boot_has_a_stable_name() -> None:
    assert boot_id() == boot_id() != ""


@pytest.mark.anyio
async def test_async_store_keeps_the_order_of_calls(tmp_path: Path) -> None:
    from anyio import create_task_group

    store = await AsyncStore.open(tmp_path / "ledger.db")
    async with create_task_group() as tasks:
        for n in range(50):
            tasks.start_soon(store.add_event, float(n), "load", "chat", "Pinned", str(n))
    assert [e.message for e in await store.events()] == [str(n) for n in range(50)]
    await store.put_launch(record())
    await store.put_entry(LedgerEntry("chat", "d", peak=1))
    assert await store.launches() == (record(),)
    assert [e.peak for e in await store.entries()] == [1]
    await store.drop_launch("a1")
    assert await store.launches() == ()
    assert (await store.generation("x"), await store.generation("y")) == (1, 2)
    assert store.recovered is None
    await store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        await store.launches()


def page_limit(store: AsyncStore, pages: int) -> None:
    """Let SQLite find the disk full once the file has so many pages (never fewer than it has)."""
    store._store._db.execute(f"PRAGMA max_page_count = {pages}")


@pytest.mark.anyio
async def test_a_full_disk_is_told_and_writing_goes_on_once_there_is_room(tmp_path: Path) -> None:
    store = await AsyncStore.open(tmp_path / "ledger.db")
    await store.put_launch(record("a"))
    page_limit(store, 1)
    big = "x" * 100_000
    message = f"the ledger {tmp_path}/ledger.db cannot be written: database or disk is full"
    for _ in range(3):
        with pytest.raises(StoreError) as caught:
            await store.add_event(1.0, "load", "chat", "Pinned", big)
        assert str(caught.value) == message
    with pytest.raises(StoreError, match="full"):
        await store.put_entry(LedgerEntry("chat", "d", last_error=big))
    assert (await store.launches(), await store.events(), await store.entries()) == ((record("a"),), (), ())
    page_limit(store, 100_000)
    assert await store.add_event(2.0, "load", "chat", "Pinned", big) == 4, "what waited comes first"
    await store.put_launch(record("b"))
    await store.close()
    with Store(tmp_path / "ledger.db") as again:
        assert [r.launch_id for r in again.launches()] == ["a", "b"]
        assert [e.at for e in again.events()] == [1.0, 1.0, 1.0, 2.0]
        assert again.recovered is None


@pytest.mark.anyio
async def test_a_commit_that_fails_is_taken_back(tmp_path: Path) -> None:
    store = await AsyncStore.open(tmp_path / "ledger.db")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "ledger.db-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5_000, limit[1]))  # the journal has room for one page
    try:
        with pytest.raises(StoreError, match=r"ledger\.db cannot be written: "):
            await store.add_event(1.0, "load", "chat", "Pinned", "x" * 50_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert await store.events() == ()
    await store.add_event(2.0, "load", "chat", "Pinned", "")
    assert [e.at for e in await store.events()] == [1.0, 2.0]
    await store.close()


@pytest.mark.anyio
async def test_a_ledger_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(StoreError, match=r"ledger\.db cannot be opened: Is a directory"):
        await AsyncStore.open(tmp_path / "ledger.db")


@pytest.mark.anyio
async def test_what_the_tables_refuse_is_a_fault_of_the_program(tmp_path: Path) -> None:
    store = await AsyncStore.open(tmp_path / "ledger.db")
    with pytest.raises(sqlite3.IntegrityError):
        await store.put_launch(record(port=None))
    await store.close()
