"""What process trees hold: recorded layouts of real servers, processes that end, and live ones."""

import mmap
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.core.memory import Basis
from reconciler.memory.linux import LinuxMachine
from reconciler.memory.probe import Held
from reconciler.memory.process import LIBRARIES, read_own_shares

KIB = 1024
MIB = 1024 * KIB


def write_process(root: Path, pid: int, status: dict[str, int], rollup: dict[str, int] | None = None) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (x) S 1")
    text = "Name:\tserver\nState:\tS (sleeping)\n"
    (folder / "status").write_text(text + "".join(f"{key}:\t{value} kB\n" for key, value in status.items()))
    if rollup is not None:
        head = "55d0-7ffc ---p 00000000 00:00 0      [rollup]\n"
        lines = (f"{key}:   {value} kB\n" for key, value in rollup.items())
        (folder / "smaps_rollup").write_text(head + "".join(lines))


def held_of(pids: Sequence[int], root: Path = Path("/")) -> Held:
    return LinuxMachine(root).held({"m": pids}, 0.0)["m"]


#: Readings (kB) of one llama.cpp server in several load modes: status, rollup, committed; and the bytes of file pages
#: taken for weights where the maps may not be read.
MAPPED = (
    {"VmLck": 0, "VmRSS": 387768, "RssAnon": 127028, "RssFile": 260740, "RssShmem": 0, "VmSwap": 0},
    {"Rss": 387768, "Pss_Anon": 127028, "Pss_File": 254561, "Pss_Shmem": 0, "SwapPss": 0, "Locked": 0},
    127028,
    260740 * KIB - LIBRARIES,
)
LOCKED = (
    {"VmLck": 240812, "VmRSS": 387716, "RssAnon": 127032, "RssFile": 260684, "RssShmem": 0, "VmSwap": 0},
    {"Rss": 387716, "Pss_Anon": 127032, "Pss_File": 254494, "Pss_Shmem": 0, "SwapPss": 0, "Locked": 240812},
    127032 + 240812,
    (260684 - 240812) * KIB - LIBRARIES,
)
READ = (
    {"VmLck": 0, "VmRSS": 375364, "RssAnon": 355440, "RssFile": 19924, "RssShmem": 0, "VmSwap": 0},
    {"Rss": 375364, "Pss_Anon": 355440, "Pss_File": 13437, "Pss_Shmem": 0, "SwapPss": 0, "Locked": 0},
    355440,
    19924 * KIB - LIBRARIES,
)
SWAPPED = (
    {"VmRSS": 50, "RssAnon": 10, "RssFile": 0, "RssShmem": 40, "VmSwap": 500, "HugetlbPages": 2048},
    {"Rss": 50, "Pss_Anon": 10, "Pss_File": 0, "Pss_Shmem": 40, "SwapPss": 500, "Private_Hugetlb": 2048},
    2598,
    0,
)


@pytest.mark.parametrize("reading", [MAPPED, LOCKED, READ, SWAPPED], ids=["mmap", "mlock", "none", "swap"])
def test_load_modes(tmp_path: Path, reading: tuple[dict[str, int], dict[str, int], int, int]) -> None:
    status, rollup, committed, warm = reading
    write_process(tmp_path, 7, status, rollup)
    held = held_of([7], tmp_path)
    assert (held.committed, held.warm, held.warm_basis) == (committed * KIB, warm, Basis.ESTIMATED)
    locked = min(status.get("VmLck", 0), status["RssFile"])
    assert read_own_shares([7], tmp_path) == (committed - locked) * KIB


def test_a_tree_is_the_sum_and_libraries_are_taken_off_each(tmp_path: Path) -> None:
    for pid in (7, 8):
        write_process(tmp_path, pid, MAPPED[0], MAPPED[1])
    held = held_of([7, 8], tmp_path)
    assert (held.committed, held.warm) == (2 * 127028 * KIB, 2 * (260740 * KIB - LIBRARIES))


def test_pages_shared_within_a_tree_count_once(tmp_path: Path) -> None:
    for pid in (7, 8):
        write_process(
            tmp_path,
            pid,
            {"VmRSS": 2000, "RssAnon": 1000, "RssFile": 0, "RssShmem": 1000},
            {"Pss_Anon": 500, "Pss_File": 0, "Pss_Shmem": 500},
        )
    assert held_of([7, 8], tmp_path).committed == 2000 * KIB
    assert [held_of([pid], tmp_path).committed for pid in (7, 8)] == [2000 * KIB] * 2


def test_an_ended_process_counts_nothing(tmp_path: Path) -> None:
    write_process(tmp_path, 7, MAPPED[0], MAPPED[1])
    assert held_of([7, 8], tmp_path).committed == 127028 * KIB
    assert held_of([8], tmp_path) == Held(0, 0, warm_at=0.0)
    assert held_of([], tmp_path) == Held(0, 0, warm_at=0.0)


def test_a_zombie_holds_nothing(tmp_path: Path) -> None:
    write_process(tmp_path, 7, {})
    (tmp_path / "proc/7/smaps_rollup").write_text("")
    assert read_own_shares([7], tmp_path) is None
    held = held_of([7], tmp_path)
    assert (held.committed, held.warm) == (0, 0)


def test_what_cannot_be_read_is_unknown_never_nothing(tmp_path: Path) -> None:
    write_process(tmp_path, 7, {"VmRSS": 5})  # a kernel that does not split resident memory
    write_process(tmp_path, 8, MAPPED[0])  # no rollup: another user's process, or an old kernel
    held = held_of([7, 8], tmp_path)
    assert (held.committed, held.warm) == (None, None)
    assert read_own_shares([7, 8], tmp_path) is None
    assert held_of([8], tmp_path).committed == 127028 * KIB


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_live_process_that_ended_counts_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait(30)
    assert held_of([process.pid]).committed == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_live_anonymous_and_mapped_pages(tmp_path: Path) -> None:
    before = held_of([os.getpid()])
    anonymous = bytearray(os.urandom(64) * (MIB // 2))  # 32 MiB
    path = tmp_path / "weights"
    path.write_bytes(bytes(64 * MIB))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert not any(mapped[i] for i in range(0, len(mapped), 4096))
        after = held_of([os.getpid()])
    assert before.committed is not None
    assert after.committed is not None
    assert before.warm is not None
    assert after.warm is not None
    assert len(anonymous) == 32 * MIB
    assert 30 * MIB <= after.committed - before.committed <= 40 * MIB
    assert 44 * MIB <= after.warm - before.warm <= 66 * MIB
