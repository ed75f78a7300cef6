"""Which weights a process has, and when those on disk count as others."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.core.types import Manifest, Preflight
from reconciler.host import Host, Ports, Process
from reconciler.leases import LeaseBook
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.observe import PREFLIGHT_SECONDS, Observer
from reconciler.loop.weights import PACE, UNTOUCHED_SECONDS, Checked, Weights
from reconciler.memory.fingerprint import Marks, marks
from reconciler.memory.machine import PsutilMachine

SPEC = LaunchSpec("m", "command", command=("/bin/true",))
WALL = 1e9
PORTS = Ports(18100, 18199)


def launch(weights: str = "w1", seen: Marks | None = None) -> Launch:
    made = Launch("id", "m", "d", SPEC, Process(1, 1), 9, 0.0, ready=True)
    made.weights, made.marks = weights, seen
    return made


def files(*sizes: int, changed: float = WALL - UNTOUCHED_SECONDS) -> Marks:
    """Files a, b, c ... of these sizes."""
    return Marks(
        tuple((f"/w/{name}", 1, size, 1) for name, size in zip("abcdef", sizes, strict=False)), changed
    )


def look(weights: str, seen: Marks | None, reason: str | None = None) -> Checked:
    return Checked(SPEC, 0.0, WALL, Preflight("m", weights=weights, reason=reason), seen)


def test_other_weights_count_when_nobody_has_changed_them_for_a_while() -> None:
    one = launch(seen=files(1))
    young = Weights().judged(one, look("w2", files(2, changed=WALL - UNTOUCHED_SECONDS + 1)), 0.0)
    assert (young.weights, young.notes) == (
        "",
        ("its weights were replaced (a): they count once nobody has changed them for 30 s",),
    )
    assert Weights().judged(one, look("w2", files(2)), 0.0) == Preflight("m", weights="w2")
    assert Weights().judged(one, look("w2", None), 0.0).weights == ""


def test_a_process_is_replaced_for_its_weights_once_in_a_while_and_it_is_said_which_changed() -> None:
    weights, old = Weights(), launch(seen=files(1, 1, 1, 1, 1))
    found = look("w2", files(2, 1, 1, 1, 1))
    assert weights.judged(old, found, 0.0).weights == "w2", "the first time at once"
    new = launch("")
    weights.begin(new, found.result, found.marks, 100.0)
    assert (new.weights, new.marks) == ("w2", found.marks)
    again = weights.judged(new, look("w3+s1", files(3, 2, 2, 2, 2)), 100.0 + PACE - 60)
    assert again.weights == "+s1", "what stands behind the + is not held up"
    assert again.notes == (
        "its weights were changed again (a, b, c and 2 more files): it is not loaded anew for that for another 60s",
    )
    assert weights.judged(new, look("w3", files(3)), 100.0 + PACE).weights == "w3"
    other = launch("w2")
    other.digest = "other"
    assert weights.judged(other, look("w3", files(3)), 100.0).weights == "w3", "other settings begin anew"


def test_a_load_for_another_reason_begins_no_time_of_rest() -> None:
    weights = Weights()
    first, second = Preflight("m", weights="w1"), Preflight("m", weights="w2")
    weights.begin(launch(""), first, files(1), 0.0)
    weights.begin(new := launch(""), second, files(2), 1.0)
    assert weights.judged(new, look("w3", files(3)), 2.0).weights == "w3"


def test_what_each_load_changes_anew_is_of_the_models_own_making() -> None:
    weights, now = Weights(), 0.0
    for number, kept in ((1, "w1"), (2, "own")):
        one = launch("")
        weights.begin(one, Preflight("m", weights=f"w{number}"), files(1, number), now)
        weights.ready(one, Preflight("m", weights="own"), files(1, number + 1))
        assert one.weights == kept
        now += PACE
    weights.begin(one := launch(""), Preflight("m", weights="w3"), files(3, 3), now)
    weights.ready(one, Preflight("m", weights="w4"), files(4, 4))
    assert one.weights == "w3", "a was never changed by a load before"


def test_weights_too_young_at_the_start_are_noted_when_they_have_settled() -> None:
    for was, now, noted in ((files(1), files(1), "w1"), (files(1), files(2), ""), (files(1), None, "")):
        one = launch("", was)
        assert Weights().fill_in(one, look("w1", now)) is bool(noted)
        assert one.weights == noted
    adopted = launch("")
    adopted.created = WALL - UNTOUCHED_SECONDS
    assert not Weights().fill_in(adopted, look("w1", files(1, changed=adopted.created)))
    assert Weights().fill_in(adopted, look("w1", files(1, changed=adopted.created - 31)))


@pytest.mark.parametrize("now", [None, files(0)])
def test_files_that_are_gone_or_broken_under_a_process_are_said(now: Marks | None) -> None:
    broken = look("", now, reason="WeightsBroken")
    found = Weights().judged(launch(seen=files(1)), broken, 0.0)
    assert (found.reason, found.notes) == (
        "WeightsBroken",
        ("its files are not what it was started with (a): it serves on with what it has",),
    )
    assert Weights().judged(launch(seen=files(0)), look("", files(0), reason="PortBusy"), 0.0).notes == ()


def test_marks_are_those_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"a")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "log.txt").write_text("no part of a model")
    first = marks([tmp_path])
    assert first is not None
    assert len(first.files) == 2
    assert first == marks([tmp_path])
    (tmp_path / "config.json").write_text("{ }")
    second = marks([tmp_path])
    assert second is not None
    assert first.others(second) == (str(tmp_path / "config.json"),)
    assert second.changed >= first.changed
    assert marks([tmp_path / "none"]) is None


class Desk:
    """An observer of one model with weights."""

    def __init__(self, root: Path) -> None:
        self.file = root / "w.bin"
        self.file.write_bytes(b"1" * 100)
        self.spec = LaunchSpec("m", "command", command=("/bin/true",), weights=str(self.file))
        self.host, self.launches = Host(root / "state", "owner"), Launches()
        self.observer = Observer(self.host, PsutilMachine(), self.launches, LeaseBook(lambda: None))

    async def look(self, now: float) -> Preflight:
        seen = await self.observer.look(Manifest(()), {"m": self.spec}, PORTS, now)
        return seen.preflights[0]

    async def start(self, now: float) -> Launch:
        """Begin a process as the loader does."""
        nobody = Process(2**22, 1)
        made = Launch("id", "m", launch_digest(self.spec), self.spec, nobody, 9, now)
        self.observer.begin(made, await self.observer.before(self.spec), now)
        self.launches.add(made)
        made.ready = True
        return made


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.host.close()


@pytest.mark.anyio
async def test_weights_written_just_before_the_start_are_watched_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await desk.look(0.0)).weights == "", "they may still be written"
    started = await desk.start(1.0)
    assert started.weights != ""
    other = desk.file.with_suffix(".new")
    other.write_bytes(b"3" * 100)
    other.replace(desk.file)
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    found = await desk.look(PREFLIGHT_SECONDS)
    assert "" != found.weights != started.weights
    assert desk.observer.found_out() == []


@pytest.mark.anyio
async def test_a_process_is_started_with_the_weights_of_that_moment(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    old = (await desk.look(0.0)).weights
    desk.file.write_bytes(b"2" * 100)
    started = await desk.start(1.0)
    assert "" != started.weights != old
    assert (await desk.look(PREFLIGHT_SECONDS)).weights == started.weights


@pytest.mark.anyio
async def test_files_are_looked_at_anew_before_anybody_is_stopped_for_them(desk: Desk) -> None:
    await desk.look(0.0)
    assert not desk.observer.is_old("m", 0.0), "this very look"
    desk.file.unlink()
    assert await desk.observer.hindrance("nobody", 1.0) == ""
    assert (await desk.look(1.0)).reason is None
    assert desk.observer.is_old("m", 1.0)
    assert (await desk.look(2.0)).reason is not None
    assert not desk.observer.is_old("m", 2.0)
    desk.file.write_bytes(b"1")
    assert await desk.observer.hindrance("m", 3.0) == ""
    desk.file.unlink()
    assert str(desk.file) in await desk.observer.hindrance("m", 4.0)
