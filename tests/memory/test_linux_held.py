"""`held` on recorded processes: load modes, trees, when page tables are walked again, devices."""

from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path

import pytest

from linux_trees import KIB, MIB, Mapped, kib_lines, process, rollup, smaps, status, write_files
from reconciler.core.memory import Basis, GpuPool, MappedFile
from reconciler.memory.linux import LinuxMachine
from reconciler.memory.probe import Held
from reconciler.memory.process import LIBRARIES
from reconciler.memory.walk import Walks

LIB = Mapped("/usr/lib/libllama.so", 13437, inode=6, mode="r-xp")
HEAP = Mapped("[heap]", 127028, mode="rw-p")
KEY = "254:2:1234"
ENDED = "Name:\tserver\nState:\tZ (zombie)\nThreads:\t1\n"


def weights(kib: int, locked: int = 0, pss: int | None = None) -> Mapped:
    return Mapped("/models/gemma.gguf", kib, inode=1234, locked=locked, pss=pss)


class Clock:
    """Each walk takes as long as it is told to."""

    def __init__(self) -> None:
        self.cost = 0.0
        self._calls = count()

    def __call__(self) -> float:
        return next(self._calls) % 2 * self.cost


class Probe:
    """Walks of one tree `a`, whose basis and age tell when its page tables were walked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.walks = Walks(root, self.clock)

    def write(self, pid: int, status_text: str, *more: str) -> None:
        write_files(self.root, process(pid, status_text, *more))

    def held(self, now: float, pids: Collection[int] = (7,), walk: Collection[str] = ()) -> Held:
        return self.walks.held({"a": sorted(pids)}, now, walk, None)["a"]


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    return Probe(tmp_path)


#: Readings of one llama.cpp server in several load modes: status, maps, committed and warm KiB.
MODES = {
    "mmap": (status(127028, 260740), [HEAP, weights(240812), LIB], 127028, 240812),
    "mmap and mlock": (
        status(127032, 260684, locked=240812),
        [HEAP, weights(240812, locked=240812), LIB],
        127032 + 240812,
        0,
    ),
    # `mlock` alone reads the weights and locks them: file pages are only libraries, and none of them is locked.
    "mlock": (
        status(355440, 19924, locked=227328),
        [Mapped("", 355440, mode="rw-p", locked=227328), LIB],
        355440,
        0,
    ),
    "none": (status(355440, 19924), [HEAP, LIB], 355440, 0),
    "swapped, shared and huge": (status(10, 0, 40, swap=500, huge=2048), [HEAP], 2598, 0),
    "weights in a file system in memory": (
        status(1000, 9000, shmem=240812),
        [Mapped("/dev/shm/w.gguf", 240812, inode=9, device="00:1a"), LIB],
        241812,
        0,
    ),
}


@pytest.mark.parametrize("name", MODES)
def test_load_modes(probe: Probe, name: str) -> None:
    status_text, mappings, committed, warm = MODES[name]
    probe.write(7, status_text, smaps(*mappings))
    held = probe.held(5.0)
    assert (held.committed, held.warm) == (committed * KIB, warm * KIB)
    assert held.files == ((MappedFile(KEY, warm * KIB),) if warm else ())
    assert (held.warm_basis, held.warm_at) == (Basis.MEASURED, 5.0)


def test_a_device_of_a_file_system_in_memory_comes_from_the_mount_table(probe: Probe) -> None:
    write_files(probe.root, {"proc/self/mountinfo": "9 1 0:57 / /ram rw - tmpfs tmpfs rw\n"})
    probe.write(7, status(shmem=4096), smaps(Mapped("/ram/w.gguf", 4096, inode=5, device="00:39")))
    assert probe.held(0.0) == Held(4 * MIB, 0, warm_at=0.0)


def test_two_models_on_one_file_name_the_same_file(probe: Probe) -> None:
    for pid in (7, 8):
        probe.write(pid, status(1000, 240812), smaps(weights(240812, pss=120406)))
    found = probe.walks.held({"a": [7], "b": [8]}, 0.0, (), None)
    assert (
        found["a"]
        == found["b"]
        == Held(1000 * KIB, 240812 * KIB, (MappedFile(KEY, 240812 * KIB),), warm_at=0.0)
    )


def test_a_tree_counts_once_what_its_processes_share(probe: Probe) -> None:
    for pid in (7, 8):
        probe.write(
            pid,
            status(1000, 9000, shmem=500, locked=2000),
            smaps(weights(9000, pss=4500), Mapped("/locked", 2000, pss=1000, locked=1000, inode=3)),
            rollup(500, 250),
        )
    held = probe.held(0.0, (7, 8))
    assert held.committed == (1000 + 500 + 2000) * KIB
    assert held.files == (MappedFile(KEY, 9000 * KIB),)


def test_what_a_tree_gains_after_a_walk_is_charged_in_full(probe: Probe) -> None:
    for pid in (7, 8):
        probe.write(pid, status(1000), smaps(HEAP), rollup(500))
    assert probe.held(0.0, (7, 8)).committed == 1000 * KIB
    probe.write(8, status(5000))
    held = probe.held(1.0, (7, 8))
    assert held.committed == 5000 * KIB
    assert held.warm_at == 0.0  # not walked again


def test_a_tree_never_holds_less_than_its_largest_process(probe: Probe) -> None:
    for pid in (7, 8):
        probe.write(pid, status(8000), smaps(HEAP), rollup(4000))
    assert probe.held(0.0, (7, 8)).committed == 8000 * KIB
    probe.write(8, status(1000))
    assert probe.held(1.0, (7, 8)).committed == 8000 * KIB


def test_when_a_process_leaves_what_it_shared_is_charged_to_the_rest(probe: Probe) -> None:
    probe.clock.cost = 1.0
    probe.write(7, status(1000), smaps(HEAP), rollup(1000))
    for pid in (8, 9):
        probe.write(pid, status(1000), smaps(HEAP), rollup(500))
    assert probe.held(0.0, (7, 8, 9)).committed == 2000 * KIB
    # A walk is not due yet, and the caller does not know yet either.
    probe.write(9, ENDED)
    assert probe.held(1.0, (7, 8, 9)).committed == 2000 * KIB
    probe.write(8, ENDED)
    assert probe.held(2.0, (7, 8, 9)).committed == 1000 * KIB


def test_shared_huge_pages_of_a_tree_count_once(probe: Probe) -> None:
    for pid in (7, 8):
        probe.write(
            pid, status(100, huge=4096), smaps(HEAP), rollup(100, Private_Hugetlb=0, Shared_Hugetlb=4096)
        )
    assert probe.held(0.0, (7, 8)).committed == (200 + 4096) * KIB


# -- when page tables are walked again --------------------------------------------------------------------------


def measured_at(held: Held) -> float | None:
    assert held.warm_basis is Basis.MEASURED
    return held.warm_at


def test_a_calm_tree_is_walked_every_ten_minutes(probe: Probe) -> None:
    probe.write(7, status(1000, 9000), smaps(weights(9000)))
    assert measured_at(probe.held(0.0)) == 0.0
    assert measured_at(probe.held(599.0)) == 0.0
    assert measured_at(probe.held(600.0)) == 600.0


@pytest.mark.parametrize(
    ("before", "after", "walked"),
    [
        (100 * KIB, 108 * KIB, False),
        (100 * KIB, 108 * KIB + 1, True),
        (100 * KIB, 92 * KIB - 1, True),
        (2000 * KIB, 2020 * KIB, False),
        (2000 * KIB, 2020 * KIB + 1, True),
    ],
)
def test_changed_file_pages_are_walked(probe: Probe, before: int, after: int, walked: bool) -> None:
    probe.write(7, status(1000, before), smaps(weights(before)))
    probe.held(0.0)
    probe.write(7, status(1000, after), smaps(weights(after)))
    held = probe.held(1.0)
    assert held.warm == (after if walked else before) * KIB
    assert measured_at(held) == (1.0 if walked else 0.0)


def test_another_process_in_the_tree_is_walked(probe: Probe) -> None:
    for pid in (7, 8):
        probe.write(pid, status(1000, 9000), smaps(weights(9000)), rollup(1000))
    assert measured_at(probe.held(0.0)) == 0.0
    assert measured_at(probe.held(1.0, (7, 8))) == 1.0
    assert measured_at(probe.held(2.0, (8,))) == 2.0


def test_a_key_that_is_asked_for_is_walked_even_so(probe: Probe) -> None:
    probe.clock.cost = 1.0
    probe.write(7, status(1000, 9000), smaps(weights(9000)))
    probe.held(0.0)
    assert measured_at(probe.held(1.0, walk=["a"])) == 1.0


def test_a_key_that_was_not_asked_for_is_forgotten(probe: Probe) -> None:
    probe.write(7, status(1000, 9000), smaps(weights(9000)))
    probe.held(0.0)
    assert probe.walks.held({}, 1.0, (), None) == {}
    assert measured_at(probe.held(2.0)) == 2.0


def test_walking_takes_one_percent_of_the_time_and_old_figures_are_stale(probe: Probe) -> None:
    probe.clock.cost = 0.5
    probe.write(7, status(1000, 100 * KIB + 13437), smaps(weights(100 * KIB), LIB))
    probe.held(0.0)
    probe.write(7, status(1000, 300 * KIB + 13437), smaps(weights(300 * KIB), LIB))
    stale = Held(1000 * KIB, 300 * MIB, (MappedFile(KEY, 300 * MIB),), warm_basis=Basis.STALE, warm_at=0.0)
    assert probe.held(49.0) == stale
    assert measured_at(probe.held(50.0)) == 50.0


def test_stale_pages_are_never_more_than_there_are_file_pages(probe: Probe) -> None:
    probe.clock.cost = 0.5
    probe.write(7, status(1000, 100 * KIB), smaps(weights(100 * KIB)))
    probe.held(0.0)
    probe.write(7, status(1000, 40 * KIB))
    held = probe.held(1.0)
    assert (held.warm, held.warm_basis) == (40 * MIB, Basis.STALE)
    probe.write(7, status(1000, 0))
    assert probe.held(2.0).files == ()


def test_stale_pages_go_with_the_process_that_had_them(probe: Probe) -> None:
    probe.clock.cost = 0.5
    probe.write(7, status(1000, 100 * KIB), smaps(weights(100 * KIB)), rollup(1000))
    probe.write(8, status(1000, 60 * KIB), smaps(weights(60 * KIB)), rollup(1000))
    assert probe.held(0.0, (7, 8)).warm == 160 * MIB
    assert probe.held(1.0, (8,)).warm == 60 * MIB


def test_pages_of_a_load_that_began_after_the_walk(probe: Probe) -> None:
    """What a process has not got yet of its libraries when it is walked comes later, and is none of its weights."""
    probe.clock.cost = 0.5
    probe.write(7, status(1000, 13437), smaps(LIB))
    probe.held(0.0)
    probe.write(7, status(1000, 13437 + 50 * KIB))
    held = probe.held(1.0)
    libraries = LIBRARIES - 13437 * KIB
    assert (held.warm, held.files, held.warm_basis) == (50 * MIB - libraries, (), Basis.STALE)
    probe.write(7, status(1000, 13437 + 5 * KIB))
    assert probe.held(2.0).warm == 0


# -- what cannot be read ----------------------------------------------------------------------------------------


def test_maps_that_may_not_be_read_are_estimated(probe: Probe) -> None:
    probe.write(7, status(1000, 60 * KIB))
    probe.write(8, status(1000, 5 * KIB))
    held = probe.held(3.0, (7, 8))
    assert held == Held(2000 * KIB, 60 * MIB - LIBRARIES, warm_basis=Basis.ESTIMATED, warm_at=3.0)
    assert probe.walks.problems == ()


def test_maps_that_are_garbage_are_said_until_they_are_not(probe: Probe) -> None:
    probe.write(7, status(1000, 60 * KIB), "banana")
    for now in (0.0, 1.0):
        assert probe.held(now).warm_basis is Basis.ESTIMATED
        assert probe.walks.problems == ("/proc/7/smaps cannot be understood: warm pages are estimated",)
    probe.write(7, status(1000, 60 * KIB), smaps(weights(60 * KIB)))
    assert probe.held(2.0, walk=["a"]).warm == 60 * MIB
    assert probe.walks.problems == ()


def test_an_estimate_follows_the_file_pages(probe: Probe) -> None:
    probe.write(7, status(1000, 60 * KIB))
    probe.held(0.0)
    probe.write(7, status(1000, 64 * KIB, locked=1 * KIB))
    held = probe.held(1.0)
    assert (held.committed, held.warm) == (2024 * KIB, 63 * MIB - LIBRARIES)


def test_a_status_that_may_not_be_read_makes_committed_unknown(probe: Probe) -> None:
    probe.write(7, status(1000, 9000), smaps(weights(9000)))
    probe.write(8, "")
    assert probe.held(0.0, (7, 8)).committed is None
    assert probe.held(0.0, (7,)).committed == 1000 * KIB
    assert probe.held(0.0, (8,)).committed is None


def test_a_kernel_that_does_not_split_resident_memory(probe: Probe) -> None:
    probe.write(7, "State:\tS\n" + kib_lines(VmRSS=5), smaps(weights(9000)))
    held = probe.held(0.0)
    assert (held.committed, held.warm) == (None, 9000 * KIB)


def test_what_has_ended_holds_nothing(probe: Probe) -> None:
    probe.write(7, ENDED, "", "")
    assert probe.held(0.0, (7, 99)) == Held(0, 0, warm_at=0.0)
    assert probe.held(1.0, ()) == Held(0, 0, warm_at=0.0)


def test_a_model_that_ends_holds_nothing_at_once(probe: Probe) -> None:
    probe.clock.cost = 1.0
    probe.write(7, status(1000, 9000, locked=100), smaps(weights(9000)))
    probe.held(0.0)
    probe.write(7, ENDED, "")
    held = probe.held(1.0)
    assert (held.committed, held.warm, held.files) == (0, 0, ())


# -- devices ----------------------------------------------------------------------------------------------------


class Device:
    """A GPU driver that says what it is told to."""

    def __init__(self, name: str, by_pid: Mapping[int, int] | None) -> None:
        self.name = name
        self.by_pid = by_pid
        self.asked: list[list[int]] = []

    def pool(self) -> GpuPool | None:
        return None

    def held(self, pids: Collection[int]) -> Mapping[int, int] | None:
        self.asked.append(list(pids))
        return self.by_pid

    def problems(self) -> tuple[str, ...]:
        return ()


def test_what_drivers_hold_is_committed(probe: Probe) -> None:
    for pid in (7, 8, 9):
        probe.write(pid, status(1000), smaps(HEAP), rollup(1000))
    gpu, other = Device("amdgpu", {7: 5 * MIB, 9: MIB}), Device("nvidia", {8: 3 * MIB})
    found = LinuxMachine(probe.root, [gpu, other]).held({"b": [9], "a": [8, 7]}, 0.0)
    assert (found["a"].committed, found["a"].device) == (2000 * KIB + 8 * MIB, 8 * MIB)
    assert (found["b"].committed, found["b"].device) == (1000 * KIB + MIB, MIB)
    assert gpu.asked == [[7, 8, 9]]


def test_an_unknown_device_figure_adds_nothing_and_is_said(probe: Probe) -> None:
    write_files(probe.root, {"proc/meminfo": kib_lines(MemTotal=1 << 20, MemAvailable=1 << 19)})
    probe.write(7, status(1000), smaps(HEAP))
    machine = LinuxMachine(probe.root, [Device("nvidia", None), Device("amdgpu", {7: MIB})])
    held = machine.held({"a": [7]}, 0.0)["a"]
    assert (held.committed, held.device) == (1000 * KIB + MIB, MIB)
    said = [problem for problem in machine.read(0.0).problems if "nvidia" in problem]
    assert said == ["what nvidia holds for processes is unknown: it is not charged to any model"]
    machine.held({}, 1.0)
    assert not any("nvidia" in problem for problem in machine.read(1.0).problems)


def test_a_device_does_not_make_unknown_known(probe: Probe) -> None:
    probe.write(7, "banana")
    held = LinuxMachine(probe.root, [Device("amdgpu", {7: MIB})]).held({"a": [7]}, 0.0)["a"]
    assert (held.committed, held.device) == (None, MIB)
