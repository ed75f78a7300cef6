"""What is kept of a model over an unload: by any server that saves when it is asked, however it behaves."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from reconciler.core.launch import LaunchSpec
from reconciler.engines.base import EngineError
from reconciler.host import Exit, Process
from reconciler.loop.launches import Launch
from reconciler.loop.states import States
from reconciler.loop.states_moves import OLDEST
from reconciler.loop.states_words import SUSPECT_SECONDS
from reconciler.manifest.applied import StateSettings
from scripted_server import Request, Scripted, scripted
from states_rig import MIB, Rig
from support import wait_for_async

pytestmark = pytest.mark.anyio


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """What most tests need."""
    return Rig(tmp_path / "states", monkeypatch)


# -- in good order -----------------------------------------------------------------------------------------------------


async def test_what_was_saved_is_restored_also_by_another_run(rig: Rig) -> None:
    await rig.states.save(rig.launch())
    assert rig.told == [("StateSaved", "state saved: 7 tokens, 5 B in 0.00 s")]
    assert rig.written() == ["files/a.bin", "state.json"]
    again = rig.again()
    await again.tidy({})
    shown = again.kept()["m"]
    assert (shown.tokens, shown.bytes, shown.at, shown.note) == (7, 5, 1000.0, "")
    await again.restore(rig.launch())
    assert rig.told[1:] == [("StateRestored", "state restored: 7 tokens, 5 B in 0.00 s")]
    assert rig.saver.calls == ["save", "restore", "reused"]


async def test_a_setup_is_tried_once(rig: Rig) -> None:
    rig.saver.reuses = 6
    tried = await rig.there_and_back()
    assert tried.endswith("; a trial with 7 of its tokens, once for this setup, used 6 of them again")
    assert await rig.there_and_back() == "state restored: 7 tokens, 5 B in 0.00 s"
    rig.saver.set_up = "another"
    assert "; a trial with" in await rig.there_and_back()


async def test_what_is_restored_in_vain_is_switched_off_for_this_build(rig: Rig) -> None:
    rig.saver.reuses = 0
    assert await rig.there_and_back() == (
        "cold start: the server says that it restored its state, and computed the same text anew; "
        "no state is kept with this setup and build any more"
    )
    assert rig.written() == []
    rig.saver.calls.clear()
    rig.again()
    await rig.states.save(rig.launch())
    await rig.states.restore(rig.launch())
    assert rig.saver.calls == []
    assert rig.states.kept()["m"].note.startswith("not kept: it is switched off")
    await rig.states.save(rig.launch(build="b2"))
    assert rig.told[-1][0] == "StateSaved"


async def test_nothing_to_keep_is_no_trouble(rig: Rig) -> None:
    rig.saver.content = b""
    await rig.states.save(rig.launch())
    assert rig.told == []
    assert rig.states.kept()["m"].note == "nothing to keep: it held no conversation"


async def test_a_model_without_the_setting_is_left_alone(rig: Rig) -> None:
    await rig.states.save(rig.launch("other"))
    await rig.states.save(replace_spec(rig.launch(), saves_state=False))
    await rig.states.restore(rig.launch("other"))
    assert (rig.saver.calls, rig.told, rig.folder.exists()) == ([], [], False)


def replace_spec(launch: Launch, **changes: Any) -> Launch:
    assert launch.spec is not None
    launch.spec = replace(launch.spec, **changes)
    return launch


async def test_a_refusal_is_said_once_and_shown(rig: Rig) -> None:
    rig.saver.refusal = "it has sliding windows"
    launch = rig.launch()
    assert launch.spec is not None
    assert rig.states.folder(launch.spec) is None
    for _ in range(2):
        await rig.states.restore(launch)
        await rig.states.save(launch)
    assert rig.told == [("StateNotKept", "not kept: it has sliding windows")]
    fresh = rig.again()
    await fresh.tidy({"m": launch.spec})
    assert fresh.kept()["m"].note == "not kept: it has sliding windows"


# -- in bad order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fails": EngineError("/save answers 500: no")}, "/save answers 500: no"),
        ({"fails": OSError(28, "No space left on device", "/x")}, "the disk: No space left on device (/x)"),
        ({"fails": ValueError("a fault")}, "a fault of its adapter: ValueError"),
        ({"hangs": True}, "it took longer than state.timeout (0.2 s)"),
    ],
)
async def test_a_save_that_fails_ends_in_time_and_counts_for_nothing(
    rig: Rig, change: dict[str, Any], said: str
) -> None:
    rig.again({"m": StateSettings(timeout=0.2)})
    await rig.states.save(rig.launch())
    rig.saver.__dict__ |= change
    began = time.monotonic()
    await rig.states.save(rig.launch())
    assert time.monotonic() - began < 3
    assert rig.told[1:] == [("StateNotSaved", f"state not saved: {said}")]
    await rig.states.stopped(rig.launch())
    assert rig.written() == []
    assert rig.states.kept()["m"].bytes == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fails": EngineError("/restore answers 400: no")}, "/restore answers 400: no"),
        ({"hangs": True}, "it took longer than state.timeout (0.2 s)"),
        ({"set_up": "another"}, "settings it depends on were changed since"),
    ],
)
async def test_a_restore_that_fails_is_a_cold_start_in_time(
    rig: Rig, change: dict[str, Any], said: str
) -> None:
    rig.again({"m": StateSettings(timeout=0.2)})
    await rig.states.save(rig.launch())
    rig.saver.__dict__ |= change
    began = time.monotonic()
    await rig.states.restore(rig.launch())
    assert time.monotonic() - began < 3
    assert rig.told[1:] == [("ColdStart", f"cold start: {said}")]
    assert rig.written() == []


async def test_another_build_or_an_old_state_is_a_cold_start(rig: Rig) -> None:
    assert await rig.there_and_back(build="b2") == "cold start: the engine is b2, it was b1"
    await rig.states.save(rig.launch())
    rig.wall += OLDEST + 1
    await rig.states.restore(rig.launch())
    assert rig.told[-1][1] == "cold start: what was saved is older than 30 days"


async def test_weights_that_were_touched_while_it_ran_are_not_what_it_holds(rig: Rig, tmp_path: Path) -> None:
    weights = tmp_path / "w.bin"
    weights.write_bytes(b"1" * 1000)
    early = rig.launch(weights=str(weights))
    early.created = time.time() - 60
    await rig.states.save(early)
    unknown = "the weights cannot be read, or were changed since the model was started"
    assert rig.told == [("StateNotSaved", f"state not saved: {unknown}")]
    late = rig.launch(weights=str(weights))
    late.created = time.time() + 1
    await rig.states.save(late)
    assert rig.told[-1][0] == "StateSaved"
    weights.write_bytes(b"2" * 1000)
    late.created = time.time() + 1
    await rig.states.restore(late)
    assert rig.told[-1][1] == "cold start: the weights were replaced since"


@pytest.mark.parametrize(("after", "cold"), [(SUSPECT_SECONDS - 1, True), (SUSPECT_SECONDS + 1, False)])
async def test_a_state_its_process_died_of_is_not_tried_again(rig: Rig, after: float, cold: bool) -> None:
    await rig.states.save(rig.launch())
    first = rig.launch()
    await rig.states.restore(first)
    first.exit, first.exited_at = Exit(None, -9), rig.now + after
    # However long the next one takes to load: it is when the other ended that counts.
    rig.now += 10 * after
    await rig.states.restore(rig.launch())
    assert (rig.told[-1][0] == "ColdStart") is cold


async def test_a_dead_process_is_not_asked(rig: Rig) -> None:
    dead = rig.launch()
    dead.exit = Exit(None, -9)
    await rig.states.save(dead)
    assert rig.saver.calls == []


def truncate(record: Path) -> None:
    record.write_text(record.read_text()[:40])


def of_another(record: Path) -> None:
    record.write_text(json.dumps({**json.loads(record.read_text()), "model": "n"}))


@pytest.mark.parametrize("harm", [truncate, of_another, Path.unlink])
async def test_a_damaged_record_counts_for_nothing(rig: Rig, harm: Callable[[Path], None]) -> None:
    await rig.states.save(rig.launch())
    harm(rig.folder / "m" / "state.json")
    await rig.states.restore(rig.launch())
    assert rig.told[-1][1] == "cold start: the record of what was saved is gone or damaged"
    assert rig.written() == []


async def test_a_folder_that_cannot_be_used_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    rig = Rig(tmp_path / "file" / "states", monkeypatch)
    launch = rig.launch()
    assert launch.spec is not None
    await rig.states.tidy({"m": launch.spec})
    assert rig.states.folder(launch.spec) is None
    await rig.states.save(launch)
    await rig.states.restore(launch)
    assert [reason for reason, _ in rig.told] == ["StateNotSaved", "ColdStart"]
    assert all("the disk: Not a directory" in text for _, text in rig.told)


# -- room --------------------------------------------------------------------------------------------------------------


async def test_a_state_larger_than_it_may_be_is_dropped(rig: Rig) -> None:
    rig.again({"m": StateSettings(timeout=5.0, most=4)})
    await rig.states.save(rig.launch())
    assert rig.told == [
        ("StateNotSaved", "state not saved: it has 5 B, more than state.max or machine.state_disk allows")
    ]
    await rig.states.stopped(rig.launch())
    assert rig.written() == []


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (None, "it would leave too little room (1 MiB free on the disk)"),
        (EngineError("Unable to save slot"), "it would leave too little room (1 MiB free on the disk)"),
    ],
)
async def test_a_disk_is_not_filled(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, fails: Exception | None, said: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=MIB))
    rig.saver.fails = fails
    await rig.states.save(rig.launch())
    assert rig.told == [("StateNotSaved", f"state not saved: {said}")]
    await rig.states.stopped(rig.launch())
    assert rig.written() == []


async def test_the_oldest_goes_first(rig: Rig) -> None:
    names = ("b", "a", "c")
    rig.again({name: StateSettings(timeout=5.0) for name in names}, most=12)
    for name in names:
        await rig.states.save(rig.launch(name))
        rig.wall += 1
    assert [rig.states.kept()[name].bytes for name in names] == [0, 5, 5]
    assert rig.written("b") == []
    assert rig.told[-1][1].startswith("state dropped: it was the oldest")


async def test_order_is_made_of_what_was_left(rig: Rig) -> None:
    everyone = {name: StateSettings(timeout=5.0) for name in ("gone", "old", "m", "half")}
    rig.again(everyone)
    await rig.states.save(rig.launch("old"))
    rig.wall += OLDEST
    for name in ("gone", "m"):
        await rig.states.save(rig.launch(name))
    rig.wall += 1
    half = rig.launch("half").spec
    assert half is not None
    folder = rig.states.folder(half)
    assert folder is not None
    (Path(folder) / "part.bin").write_bytes(b"x")
    del everyone["gone"]
    fresh = rig.again(everyone)
    await fresh.tidy({})
    assert {name: rig.written(name) for name in ("gone", "old", "m", "half")} == {
        "gone": [],
        "old": [],
        "m": ["files/a.bin", "state.json"],
        "half": [],
    }
    assert not (rig.folder / "gone").exists()
    assert (rig.folder / "half" / "files").exists()  # a running server may know it


async def test_a_manifest_that_changes_meanwhile_takes_nothing_from_under_a_save(rig: Rig) -> None:
    rig.saver.hangs = True
    rig.again()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.states.save, rig.launch())
        await wait_for_async(lambda: rig.saver.calls == ["save"], 5, "a save in progress")
        await rig.states.tidy({})
        assert rig.written() == ["files/a.bin"]
        tasks.cancel_scope.cancel()


# -- addresses of the user's -------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Scripted]:
    """A server that says it saves; who writes the file is the test."""
    with scripted({"POST /save": [(200, {"tokens": 3})], "POST /load": [200]}) as found:
        yield found


@pytest.mark.parametrize("whole", [False, True], ids=["path", "address"])
async def test_hooks_get_the_folder_and_only_what_lies_there_counts(
    tmp_path: Path, server: Scripted, whole: bool
) -> None:
    told: list[str] = []

    async def tell(kind: str, model: str, reason: str, message: str) -> None:
        told.append(message)

    at = server.url if whole else ""
    states = States(tmp_path, tell)
    states.use({"m": StateSettings(f"{at}/save", f"{at}/load", 5.0)}, MIB)
    spec = LaunchSpec("m", "command", command=("x", "--api-key", "hunter2"))
    launch = Launch("id", "m", "d", spec, Process(1, 1), server.port, 0.0, ready=True)
    await states.save(launch)
    assert told == []  # it answered 200 and wrote nothing

    folder = tmp_path / "m" / "files"

    def answer(request: object) -> tuple[int, object]:
        (folder / "deep").mkdir()
        (folder / "deep" / "s.bin").write_bytes(b"12345")
        (folder / "link").symlink_to("/etc/passwd")
        return 200, {"tokens": 3}

    server.answer = answer  # type: ignore[method-assign]
    await states.save(launch)
    assert told[-1].startswith("state saved: 3 tokens, 5 B in ")
    assert sorted(p.name for p in folder.rglob("*")) == ["deep", "s.bin"]
    del server.answer
    await states.restore(launch)
    assert told[-1].startswith("state restored: 3 tokens, 5 B in ")
    [asked] = server.asked("POST /load")
    assert asked.json() == {"path": str(folder)}
    assert asked.headers.get("authorization") == (None if whole else "Bearer hunter2")
    server.set("POST /load", (409, b"no"))
    states = States(tmp_path, tell)
    states.use({"m": StateSettings(f"{at}/save", f"{at}/load", 5.0)}, MIB)
    await states.restore(launch)
    assert told[-1] == f"cold start: {at}/load answers 409: no"


async def test_without_an_address_to_restore_at_nothing_is_saved(tmp_path: Path, server: Scripted) -> None:
    told: list[str] = []

    async def tell(kind: str, model: str, reason: str, message: str) -> None:
        told.append(message)

    states = States(tmp_path, tell)
    states.use({"m": StateSettings("/save", None, 5.0)}, MIB)
    spec = LaunchSpec("m", "command", command=("x",))
    await states.save(Launch("id", "m", "d", spec, Process(1, 1), server.port, 0.0, ready=True))
    assert told == ["not kept: it is not said where it could be restored: give state.load"]
    assert server.asked() == []


@pytest.mark.parametrize("path", ["/save", "/load"])
async def test_an_answer_without_an_end_is_not_read_to_it(
    tmp_path: Path, server: Scripted, path: str
) -> None:
    told: list[str] = []

    async def tell(kind: str, model: str, reason: str, message: str) -> None:
        told.append(message)

    def answer(request: Request) -> tuple[int, object]:
        (tmp_path / "m" / "files" / "s.bin").write_bytes(b"12345")
        return 200, b"x" * (17 * MIB) if request.path == path else {}

    server.answer = answer  # type: ignore[method-assign]
    states = States(tmp_path, tell)
    states.use({"m": StateSettings("/save", "/load", 5.0)}, MIB)
    launch = Launch(
        "id", "m", "d", LaunchSpec("m", "command", command=("x",)), Process(1, 1), server.port, 0.0
    )
    await states.save(launch)
    await states.restore(launch)
    assert any(f"{path} answers with more than 16 MiB" in text for text in told)
