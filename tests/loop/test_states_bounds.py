"""What a server does to the folder of its state, and beside it, harms nothing of the user's and fills no disk."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import anyio
import pytest

from reconciler.engines.base import Saved, Server
from reconciler.loop import states_folder, states_shelf
from reconciler.loop.states import LATE_GRACE
from reconciler.loop.states_files import UnfitError
from reconciler.loop.states_record import Kept
from reconciler.loop.states_shelf import Shelf
from reconciler.manifest.applied import StateSettings
from states_rig import MIB, FakeSaver, Rig

pytestmark = pytest.mark.anyio
CONTENT: Final = b"mine"


class Doing(FakeSaver):
    """Does something of its own to the folder when it is told to save."""

    def __init__(self, act: Callable[[Path], None], files: tuple[str, ...] = ("a.bin",)) -> None:
        super().__init__()
        self.act, self.files = act, files

    async def save(self, server: Server, folder: Path) -> Saved | None:
        self.act(folder)
        await self._act("save")
        return Saved(self.files, 7)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of the user's, outside."""
    folder = tmp_path / "mine"
    (folder / "deep").mkdir(parents=True)
    for file in (folder / "a.bin", folder / "deep" / "b.bin", folder / "state.json"):
        file.write_bytes(CONTENT)
        file.chmod(0o644)
    return folder


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """One model, in a folder of its own."""
    return Rig(tmp_path / "states", monkeypatch)


def untouched(folder: Path) -> bool:
    """Return whether everything of the user's is there as it was."""
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    return [p.relative_to(folder).as_posix() for p in found] == ["a.bin", "deep/b.bin", "state.json"] and all(
        p.read_bytes() == CONTENT and p.stat().st_mode & 0o777 == 0o644 for p in found
    )


def doing(rig: Rig, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None], *files: str) -> None:
    saver = Doing(act, files or ("a.bin",))
    monkeypatch.setattr(
        "reconciler.engines.registry.get",
        lambda _: SimpleNamespace(saver=lambda _: saver, api_key=lambda _: None),
    )


@pytest.mark.parametrize("what", ["files", "model", "moved", "subfolder", "file", "hard", "other"])
async def test_nothing_outside_is_read_changed_or_removed(
    rig: Rig, mine: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def act(folder: Path) -> None:
        if what == "files":
            shutil.rmtree(folder)
            folder.symlink_to(mine)
        elif what == "model":
            shutil.rmtree(folder.parent)
            folder.parent.symlink_to(mine)
        elif what == "moved":
            folder.rename(folder.parent / "elsewhere")
            folder.symlink_to(folder.parent / "elsewhere")
        elif what == "subfolder":
            (folder / "deep").symlink_to(mine / "deep")
        elif what == "file":
            (folder / "a.bin").symlink_to(mine / "a.bin")
        elif what == "hard":
            os.link(mine / "a.bin", folder / "a.bin")
        else:
            shutil.rmtree(folder)
            shutil.copytree(mine, folder)

    doing(rig, monkeypatch, act, "deep/b.bin" if what == "subfolder" else "a.bin")
    launch = rig.launch()
    await rig.states.save(launch)
    assert [reason for reason, _ in rig.told] == ["StateNotSaved"], what
    await rig.states.stopped(launch)
    await rig.states.restore(rig.launch())
    await rig.states.tidy({})
    assert untouched(mine)
    place = Path(rig.states.folder(launch.spec) or "" if launch.spec else "")
    assert place == rig.folder / "m" / "files"
    assert [p.is_symlink() for p in (place, place.parent)] == [False, False]
    rig.again({"another": StateSettings(timeout=5.0)})
    await rig.states.tidy({})
    assert not place.parent.exists()
    assert untouched(mine)


async def test_a_link_to_all_states_is_not_followed(rig: Rig, mine: Path) -> None:
    (mine / "m" / "files").mkdir(parents=True)
    (mine / "m" / "files" / "x").write_bytes(CONTENT)
    rig.folder.symlink_to(mine)
    await rig.states.tidy({})
    await rig.states.save(rig.launch())
    assert "the disk: Not a directory" in rig.told[0][1]
    assert (mine / "m" / "files" / "x").read_bytes() == CONTENT


async def test_a_record_is_not_written_through_a_link(
    rig: Rig, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(folder: Path) -> None:
        (folder / "a.bin").write_bytes(b"x")
        for name in ("state.json", "state.json.tmp", "state.tmp"):
            (folder.parent / name).symlink_to(mine / "state.json")
        (folder.parent.parent / ".proofs.json.tmp").symlink_to(mine / "a.bin")

    doing(rig, monkeypatch, act)
    await rig.states.save(rig.launch())
    assert rig.told[-1][0] == "StateSaved"
    Shelf(rig.folder).prove("p", True)
    assert Shelf(rig.folder).proved("p") is True
    assert untouched(mine)


async def test_modes_and_what_lies_beside(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(folder: Path) -> None:
        (folder / "deep").mkdir(mode=0o755)
        for name in ("deep/a.bin", "../extra", "unwanted", "deep/unwanted"):
            (folder / name).write_bytes(b"12345")
        (folder.parent / "more").mkdir()
        os.mkfifo(folder / "deep" / "fifo")

    doing(rig, monkeypatch, act, "deep/a.bin")
    await rig.states.save(rig.launch())
    assert rig.told[-1][0] == "StateSaved"
    assert rig.written() == ["files/deep/a.bin", "state.json"]
    found = {p.relative_to(rig.folder).as_posix(): p.stat().st_mode & 0o777 for p in rig.folder.rglob("*")}
    assert found == {
        "m": 0o700,
        "m/files": 0o700,
        "m/files/deep": 0o700,
        "m/files/deep/a.bin": 0o600,
        "m/state.json": 0o600,
    }
    # What was put there later goes when order is made; what never was ours stays.
    (rig.folder / "m" / "late").write_bytes(b"x")
    (rig.folder / "theirs").mkdir()
    await rig.states.tidy({})
    assert sorted(os.listdir(rig.folder / "m")) == ["files", "state.json"]
    assert (rig.folder / "theirs").exists()


@pytest.mark.parametrize(
    "name",
    [
        "proofs.json",
        ".proofs.json",
        ".",
        "..",
        "Chat",
        "chat",
        "a/b",
        "a%2fb",
        "ü",
        "u\u0308",
        "x" * 128,
        "~",
    ],
)
async def test_any_name_has_a_place_of_its_own(rig: Rig, name: str) -> None:
    names = [name, "m", "CHAT", "x" * 127 + "y"]
    rig.again({each: StateSettings(timeout=5.0) for each in names})
    for each in names:
        await rig.states.save(rig.launch(each))
    Shelf(rig.folder).prove("p", False)
    await rig.states.tidy({})
    assert {kept.model for kept in Shelf(rig.folder).all()} == set(names)
    assert Shelf(rig.folder).proved("p") is False
    places = [p.name for p in rig.folder.iterdir() if p.is_dir()]
    assert len({place.lower() for place in places}) == len(places) == len(names)


# -- room --------------------------------------------------------------------------------------------------------------


def writing(rig: Rig, monkeypatch: pytest.MonkeyPatch, at: str) -> list[int]:
    """Have the saver write 64 KiB at a time until it is cut; return the list that has what it wrote."""
    wrote = [0]

    class Flood(FakeSaver):
        async def save(self, server: Server, folder: Path) -> Saved | None:
            with (folder / at).open("wb", buffering=0) as file:
                while True:
                    wrote[0] += file.write(bytes(64 << 10))
                    await anyio.lowlevel.checkpoint()

    flood = Flood()
    monkeypatch.setattr(
        "reconciler.engines.registry.get",
        lambda _: SimpleNamespace(saver=lambda _: flood, api_key=lambda _: None),
    )
    return wrote


@pytest.mark.parametrize("at", ["a.bin", "../beside"])
async def test_a_save_is_cut_as_soon_as_it_is_too_much(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    rig.again({"m": StateSettings(timeout=60.0, most=MIB)})
    writing(rig, monkeypatch, at)
    began = time.monotonic()
    assert await rig.states.save(rig.launch()) == 0.0  # it may go on writing: it is to be killed
    assert time.monotonic() - began < 30
    [(reason, text)] = rig.told
    assert (reason, "more than state.max or machine.state_disk allows" in text) == ("StateNotSaved", True)
    assert rig.written() == []


async def test_a_save_is_cut_when_the_disk_becomes_full(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.again({"m": StateSettings(timeout=60.0)}, most=1 << 40)
    wrote = writing(rig, monkeypatch, "a.bin")
    room = states_shelf.LEAST_FREE + 2 * MIB
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=room - wrote[0]))
    assert await rig.states.save(rig.launch()) == 0.0
    assert "it would leave too little room" in rig.told[0][1]
    assert rig.written() == []


async def test_many_small_files_are_too_much(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def many(folder: Path) -> None:
        for number in range(21):
            (folder / str(number)).touch()

    monkeypatch.setattr(states_shelf, "MOST_ENTRIES", 20)
    doing(rig, monkeypatch, many)
    await rig.states.save(rig.launch())
    assert rig.told == [("StateNotSaved", "state not saved: it has more than 20 files")]
    assert rig.written() == []


async def test_a_late_save_may_go_on_writing(rig: Rig) -> None:
    rig.again({"m": StateSettings(timeout=0.05)})
    rig.saver.hangs = True
    assert await rig.states.save(rig.launch()) == LATE_GRACE
    rig.saver.hangs = False
    rig.again()
    assert await rig.states.save(rig.launch()) is None


def test_folders_nested_too_deep_are_no_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deep(*_: object, **__: object) -> None:
        raise RecursionError

    (tmp_path / "d").mkdir()
    monkeypatch.setattr(os, "fwalk", deep)
    monkeypatch.setattr(shutil, "rmtree", deep)
    with states_folder.opened(tmp_path) as folder:
        for call in (states_folder.measure, states_folder.clear):
            with pytest.raises(OSError, match="nested too deep"):
                call(folder)


# -- what is written when it is too late, or cannot be -----------------------------------------------------------------


@pytest.mark.parametrize("late", ["a.bin", "b.bin", "link"])
async def test_what_is_written_after_the_save_is_found_when_the_process_has_ended(
    rig: Rig, late: str
) -> None:
    launch = rig.launch()
    await rig.states.save(launch)
    file = rig.folder / "m" / "files" / late
    if late == "link":
        file.symlink_to("/etc/passwd")
    else:
        with file.open("ab") as out:
            out.write(b"more")
    await rig.states.stopped(launch)
    said = f"state not saved: {late} was written to after its save had ended"
    assert rig.told[1:] == [("StateNotSaved", said)]
    assert (rig.written(), rig.states.kept()["m"].bytes) == ([], 0)
    await rig.states.restore(rig.launch())
    assert len(rig.told) == 2


async def test_what_was_not_touched_stays(rig: Rig) -> None:
    launch = rig.launch()
    await rig.states.save(launch)
    await rig.states.stopped(launch)
    assert [reason for reason, _ in rig.told] == ["StateSaved"]
    assert rig.states.kept()["m"].bytes == 5


@pytest.mark.parametrize("used", [6, 0])
async def test_a_proof_that_cannot_be_noted_is_said_and_no_cold_start(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, used: int
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    rig.saver.reuses = used
    await rig.states.save(rig.launch())
    monkeypatch.setattr(Shelf, "prove", full)
    await rig.states.restore(rig.launch())
    reason, text = rig.told[-1]
    assert reason == ("StateRestored" if used else "ColdStart")
    assert text.endswith("tried again: No space left on device)")
    assert "no state is kept" not in text


async def test_what_could_not_be_restored_nor_removed_is_not_tried_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system", "x")

    await rig.states.save(rig.launch())
    rig.saver.set_up = "another"
    with monkeypatch.context() as patch:
        patch.setattr(Shelf, "empty", read_only)
        assert await rig.states.restore(rig.launch()) == "settings it depends on were changed since"
        rig.saver.set_up = "setup"
        assert "could not be removed" in await rig.states.restore(rig.launch())
    assert rig.saver.calls == ["save"]
    assert "could not be removed" in await rig.states.restore(rig.launch())
    assert await rig.states.restore(rig.launch()) == ""
    await rig.states.save(rig.launch())
    assert await rig.states.restore(rig.launch()) == ""
    assert rig.saver.calls == ["save", "save", "restore", "reused"]


def test_a_hard_link_that_took_the_place_of_a_file_is_damage(tmp_path: Path, mine: Path) -> None:
    shelf = Shelf(tmp_path / "states")
    place = shelf.files("m")
    (place.path / "a.bin").write_bytes(CONTENT)
    with pytest.raises(UnfitError, match=r"gone\.bin is no regular file"):
        shelf.take_in("m", ["a.bin", "gone.bin"], place)
    files = shelf.take_in("m", ["a.bin"], place)
    kept = Kept("m", "e", "b", "w", "s", None, 0.0, 0.0, files)
    assert (shelf.damage(kept), shelf.touched(kept)) == ("", "")
    (place.path / "a.bin").unlink()
    os.link(mine / "a.bin", place.path / "a.bin")
    assert "hard link" in shelf.damage(kept)
    assert untouched(mine)
