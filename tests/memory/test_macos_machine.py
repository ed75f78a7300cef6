"""`MacMachine` on recorded outputs: the account of a Mac, the cost of a look, and what garbage makes of it."""

import errno
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mac_outputs import CAPTURES, GIB, MIB, Commands, sysctl, vm_stat
from reconciler.core.memory import Basis, GpuPool, Memory, Stall, Swap
from reconciler.memory.macos import MacMachine, Output
from reconciler.memory.macos.libproc import RusageInfo
from reconciler.memory.probe import Held

PAGE = 16384
TOTAL = 32 * GIB


def no_rusage(pid: int, info: RusageInfo) -> int:
    raise AssertionError(f"pid {pid} was asked for")


def machine(commands: Commands, working_set: int | None = 24 * GIB) -> MacMachine:
    return MacMachine(commands, no_rusage, lambda: working_set)


def read(**answers: str | Output | OSError) -> Memory:
    commands = Commands()
    commands.answers.update(answers)
    return machine(commands).read(5.0)


def test_the_whole_account() -> None:
    memory = read(vm_stat=vm_stat("swapping"), sysctl=sysctl())
    assert memory.host is not None
    assert replace(memory, host=None) == Memory(
        total=TOTAL,
        available=(26450 + 414135 + 138454) * PAGE,
        source="vm_stat, sysctl",
        swap=Swap(4096 * MIB, round(2743.5 * MIB), 714859 * PAGE, 1527838 * PAGE),
        stall=Stall(level=1, compressed=44642 * PAGE),
        gpu=GpuPool(24 * GIB, None, "Metal recommendedMaxWorkingSetSize"),
    )


@pytest.mark.parametrize(("capture", "available"), [("calm", 18.5), ("full", 8.3), ("swapping", 8.8)])
def test_available_and_who_has_the_rest(capture: str, available: float) -> None:
    memory = read(vm_stat=vm_stat(capture))
    host = memory.host
    assert memory.available is not None
    assert host is not None
    assert round(memory.available / GIB, 1) == available
    assert (host.total, host.available) == (TOTAL, memory.available)
    assert host.programs + host.kernel == TOTAL - memory.available
    anonymous, _, compressor = CAPTURES[capture][9:12]
    purgeable = CAPTURES[capture][6]
    assert host.programs == (anonymous + compressor - purgeable) * PAGE


def test_an_intel_mac_has_no_pool_for_the_gpu() -> None:
    answer = sysctl(wired_limit_mb=None, arm64=None)
    memory = read(vm_stat=vm_stat("intel"), sysctl=answer)
    assert memory.available == (6127229 + 1080348 + 11820) * 4096
    assert memory.gpu is None
    assert memory.problems == ()


def test_what_the_gpu_wires_is_not_called_the_kernels() -> None:
    """6 GiB of mapped weights stop being file pages and become wired, and come back when the GPU is idle."""
    weights = 6 * GIB // PAGE
    commands = Commands()
    mac = machine(commands)
    before = mac.read(0.0).host
    commands.answers["vm_stat"] = vm_stat(
        wired_down=134298 + weights, file_backed_pages=538942 - weights, inactive=410479 - weights
    )
    busy = mac.read(1.0).host
    commands.answers["vm_stat"] = vm_stat()
    after = mac.read(2.0).host
    assert before is not None
    assert busy is not None
    assert busy.kernel == before.kernel
    assert busy.programs == before.programs + 6 * GIB
    assert after == before


def test_a_first_look_at_a_busy_gpu_is_corrected_once_it_idles() -> None:
    commands = Commands(
        {"vm_stat": vm_stat(wired_down=134298 + 30000, free=652276 - 30000), "sysctl": sysctl()}
    )
    mac = machine(commands)
    first = mac.read(0.0).host
    commands.answers["vm_stat"] = vm_stat()
    second = mac.read(1.0).host
    assert first is not None
    assert second is not None
    assert first.kernel == second.kernel + 30000 * PAGE


# cost


def test_one_look_is_two_commands_and_lasts() -> None:
    commands = Commands()
    mac = machine(commands)
    first = mac.read(10.0)
    assert [argv[0] for argv, _ in commands.asked] == ["/usr/bin/vm_stat", "/usr/sbin/sysctl"]
    assert {timeout for _, timeout in commands.asked} == {2.0}
    commands.answers["vm_stat"] = vm_stat("full")
    assert mac.read(10.39) is first
    assert len(commands.asked) == 2
    assert mac.read(10.4).available != first.available
    assert len(commands.asked) == 4


def test_a_failed_look_is_not_repeated_at_once_either() -> None:
    commands = Commands({"vm_stat": TimeoutError(), "sysctl": TimeoutError()})
    mac = machine(commands)
    assert mac.read(0.0) is mac.read(0.3)
    assert len(commands.asked) == 2


def test_metal_is_asked_once() -> None:
    asked: list[int] = []
    mac = MacMachine(Commands(), no_rusage, lambda: asked.append(1))
    mac.read(0.0)
    mac.read(1.0)
    assert asked == [1]


# what cannot be understood


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (FileNotFoundError(2, "No such file or directory"), "cannot be run: No such file or directory"),
        (PermissionError(13, "Permission denied"), "cannot be run: Permission denied"),
        (TimeoutError(), "did not answer within 2 s"),
        (Output("", 1), "failed with exit status 1"),
        (Output(vm_stat() + sysctl(), -9), "failed with exit status -9"),
    ],
)
@pytest.mark.parametrize("command", ["vm_stat", "sysctl"])
def test_a_command_that_fails(command: str, answer: Output | OSError, problem: str) -> None:
    memory = read(**{command: answer})
    assert f"{command} {problem}" in memory.problems
    assert memory.available is None
    assert f"{command} {problem}" in memory.source
    if command == "vm_stat":
        assert (memory.total, memory.stall) == (TOTAL, Stall(level=1))
        assert memory.swap == Swap(4096 * MIB, round(2743.5 * MIB))
        assert memory.problems == (f"{command} {problem}",)
    else:
        assert memory.total is None
        assert memory.stall.level is None
        assert memory.gpu is None


def test_what_never_changes_is_remembered_over_a_failure() -> None:
    commands = Commands()
    mac = machine(commands)
    first = mac.read(0.0)
    commands.answers["sysctl"] = TimeoutError()
    second = mac.read(1.0)
    assert second.problems == ("sysctl did not answer within 2 s",)
    assert (second.total, second.available, second.gpu) == (first.total, first.available, first.gpu)
    assert second.swap == replace(first.swap, total=None, used=None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "vm_stat does not state the size of a page"),
        (vm_stat(free=None), "vm_stat is not used: its pages do not add up to the machine's memory"),
        (vm_stat(wired_down=None), "vm_stat is not used: its pages do not add up to the machine's memory"),
        # Pages of 4 KiB where there are 16, all 0, more than there can be.
        (vm_stat(page=4096), "vm_stat is not used: its pages do not add up to the machine's memory"),
        (
            vm_stat(
                free=0, active=0, inactive=0, speculative=0, wired_down=0, file_backed_pages=0, purgeable=0
            ),
            "vm_stat is not used: its pages do not add up to the machine's memory",
        ),
        (vm_stat(free=2097153), "vm_stat is not used: its pages do not add up to the machine's memory"),
        (vm_stat(purgeable=2097153), "vm_stat is not used: its pages do not add up to the machine's memory"),
    ],
)
def test_pages_that_cannot_be(text: str, problem: str) -> None:
    memory = read(vm_stat=text)
    assert memory.problems == (problem,)
    assert (memory.available, memory.host, memory.source) == (None, None, problem)
    assert (memory.swap.read, memory.stall) == (None, Stall(level=1))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (sysctl(swapusage=None), "sysctl does not state vm.swapusage"),
        (
            sysctl(wired_limit_mb="lots"),
            "sysctl states no number as iogpu.wired_limit_mb: the default is assumed",
        ),
        (
            sysctl(memorystatus_vm_pressure_level="7"),
            "sysctl does not state kern.memorystatus_vm_pressure_level: the level is worked out from the compressor",
        ),
    ],
)
def test_a_value_that_is_not_stated(answer: str, problem: str) -> None:
    memory = read(sysctl=answer)
    assert memory.problems == (problem,)
    assert memory.available == (652276 + 538942 + 23079) * PAGE


def test_level_from_the_compressor_where_the_kernel_does_not_say() -> None:
    silent = sysctl(memorystatus_vm_pressure_level=None)
    assert read(sysctl=silent).stall.level == 1
    compressed = vm_stat(free=10000, inactive=0, active=400000, occupied_by_compressor=1200000)
    assert read(sysctl=silent, vm_stat=compressed).stall.level == 4
    assert read(sysctl=sysctl(), vm_stat=compressed).stall.level == 1
    assert read(sysctl=silent, vm_stat=vm_stat(page=4096)).stall.level is None


@given(
    text=st.text(max_size=200),
    counts=st.fixed_dictionaries(
        {
            name: st.none() | st.integers(0, 2**70)
            for name in ("free", "active", "wired_down", "purgeable", "file_backed_pages", "swapins")
        }
    ),
    total=st.integers(0, 2**70),
    status=st.sampled_from([0, 0, 0, 1]),
)
def test_garbage_is_unknown_and_said(
    text: str, counts: dict[str, int | None], total: int, status: int
) -> None:
    answers = [text, vm_stat() + text, vm_stat("calm", **counts)]
    for pages in answers:
        for kernel in (text, sysctl(total), f"hw.memsize: {TOTAL}\n{text}", f"hw.memsize: {text}\n"):
            memory = read(vm_stat=Output(pages, status), sysctl=kernel)
            if memory.available is None:
                assert memory.problems
                assert memory.source == "; ".join(memory.problems)
            else:
                assert memory.total is not None
                assert 0 <= memory.available <= memory.total
                assert memory.host is not None
                assert memory.host.programs >= 0
                assert memory.host.kernel >= 0


# what processes hold


CHARGES = {
    # Resident, footprint, largest: a server of two processes, and one whose memory was compressed.
    1: (100 * MIB, 90 * MIB, 95 * MIB),
    2: (4 * GIB, 6 * GIB, 7 * GIB),
    3: (5107 * MIB, 13795 * MIB, 18591 * MIB),
}


def rusage(pid: int, info: RusageInfo) -> int:
    if pid == 0:
        return errno.EPERM
    if pid not in CHARGES:
        return errno.ESRCH
    info.words[6], info.words[7], info.words[28] = CHARGES[pid]
    return 0


@pytest.mark.parametrize(
    ("pids", "committed", "peak"),
    [
        ((2, 1, 2), 6 * GIB + 90 * MIB, 7 * GIB + 95 * MIB),
        ((3,), 13795 * MIB, 18591 * MIB),
        ((3, 77), 13795 * MIB, 18591 * MIB),
        ((77,), 0, 0),
        ((), 0, 0),
        ((3, 0), None, None),
    ],
)
def test_a_tree_holds_its_footprints(pids: tuple[int, ...], committed: int | None, peak: int | None) -> None:
    mac = MacMachine(Commands(), rusage, lambda: None)
    held = mac.held({"b": (), "a": pids}, 1.0, walk=["a"])
    assert list(held) == ["a", "b"]
    assert held["a"] == Held(committed, warm=0, warm_basis=Basis.ESTIMATED, peak=peak)


def test_holding_runs_no_command() -> None:
    commands = Commands()
    MacMachine(commands, rusage, lambda: None).held({"a": [1, 2, 3]}, 1.0)
    assert commands.asked == []
