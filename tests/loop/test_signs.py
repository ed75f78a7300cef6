"""Signs of life of a load, and how long it may go on because of them."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from reconciler.loop import signs
from reconciler.loop.signs import NOTICEABLE, Patience, Signs, disk_reads

MIB = 1 << 20


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "model.log"
    path.write_text("--- start\n")
    return path


def test_memory_counts_when_it_grows_past_the_most_it_was(log: Path) -> None:
    seen = Signs(log)
    told = [
        seen.look(holds, ()) for holds in (None, 0, 10 * MIB, 10 * MIB + 4096, 5 * MIB, 10 * MIB, 12 * MIB)
    ]
    assert told == ["", "", "its memory grew", "", "", "", "its memory grew"]


def test_slow_growth_adds_up(log: Path) -> None:
    seen = Signs(log)
    told = [seen.look(count * NOTICEABLE // 4, ()) for count in range(9)]
    assert [bool(text) for text in told] == [False, False, False, False, True, False, False, False, True]


def test_the_log_counts_when_it_changes_its_size_also_by_being_rotated(log: Path) -> None:
    seen = Signs(log)
    assert seen.look(None, ()) == "", "what was there before says nothing"
    with log.open("a") as out:
        out.write("loading\n")
    assert seen.look(None, ()) == "its log grew"
    assert seen.look(None, ()) == ""
    log.write_text("")
    assert seen.look(None, ()) == "its log grew"
    log.unlink()
    assert seen.look(None, ()) == ""


def test_reading_from_disk_counts_by_process(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: dict[int, int | None] = {7: 50 * MIB}
    monkeypatch.setattr(signs, "disk_reads", lambda pid: counts.get(pid))
    seen = Signs(log)
    assert seen.look(None, (7,)) == "", "what it read before the first look says nothing"
    counts[7] = 50 * MIB + 4096
    assert seen.look(None, (7,)) == ""
    counts[7] = 51 * MIB
    assert seen.look(None, (7, 8)) == "it read from disk"
    counts[8] = 5
    assert seen.look(None, (7, 8)) == "", "a new process starts from where it is"
    counts[7] = None
    assert seen.look(3 * MIB, (7, 8)) == "its memory grew"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_disk_reads_of_a_real_process() -> None:
    mine = disk_reads(os.getpid())
    assert mine is not None
    assert mine >= 0
    assert disk_reads(2**22 + 1) is None


@pytest.mark.parametrize(
    ("io", "stat", "expected"),
    [
        ("rchar: 5\nread_bytes: 8192\nwrite_bytes: 0\n", "1 (a) S 1", 8192),
        (None, "7 (a (b) c) S 1 2 3 4 5 6 77 8 3 9 0", 3),
        (None, "7 (a) S 1 2", None),
        (None, None, None),
        ("read_bytes: -5\n", "7 (a) S x y", None),
    ],
)
def test_what_the_kernel_tells(
    io: str | None, stat: str | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"/proc/7/io": io, "/proc/7/stat": stat}
    monkeypatch.setattr(signs, "read_text", texts.get)
    monkeypatch.setattr(os, "sysconf", lambda _name: 1)
    assert disk_reads(7) == expected


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.anyio
async def test_patience_is_renewed_by_signs_and_has_an_end() -> None:
    clock = Clock()
    patience = Patience(5.0, clock)
    assert patience.until - anyio.current_time() == pytest.approx(5, abs=0.5)
    clock.now = 104.0
    patience.renew("its log grew")
    assert patience.until - anyio.current_time() == pytest.approx(5, abs=0.5)
    clock.now = 147.0
    patience.renew("its memory grew")
    assert patience.until - anyio.current_time() == pytest.approx(3, abs=0.5)


@pytest.mark.anyio
async def test_without_a_sign_it_is_over_at_once_with_the_time() -> None:
    patience = Patience(0.05)
    with patience.scope:
        await anyio.sleep(5)
    assert patience.scope.cancelled_caught
    assert patience.over("HTTP 503") == "not ready within 0.05 s: HTTP 503"


@pytest.mark.anyio
async def test_one_that_chatters_for_ever_is_over_in_the_end() -> None:
    patience = Patience(0.05)
    began = anyio.current_time()
    with patience.scope:
        while True:
            patience.renew("its log grew")
            await anyio.sleep(0.01)
    assert anyio.current_time() - began >= 0.5
    text = patience.over("HTTP 503")
    assert "10 times timeouts.load: HTTP 503; it went on, its log grew" in text


@pytest.mark.parametrize(
    ("took", "last", "expected"),
    [
        (7.0, 5.0, "not ready after 7.0 s, and no progress for 2 s: HTTP 503; its log grew last"),
        (
            20.0,
            19.5,
            "not ready within 20 s, 10 times timeouts.load: HTTP 503; it went on, its log grew 0.5 s ago",
        ),
    ],
)
@pytest.mark.anyio
async def test_the_error_says_what_was_seen_last(took: float, last: float, expected: str) -> None:
    clock = Clock()
    patience = Patience(2.0, clock)
    clock.now = 100 + last
    patience.renew("its log grew")
    clock.now = 100 + took
    assert patience.over("HTTP 503") == expected
