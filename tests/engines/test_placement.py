"""Whether the machine has what a launch asks for, said before anybody is evicted for it."""

import os
import resource
import sys
from pathlib import Path

import pytest

from linux_trees import write_files
from reconciler.core.launch import Device, LaunchSpec, LoadMode
from reconciler.engines import placement
from reconciler.engines.placement import Machine, lockable_bytes, machine_for, notes, reachable_cpus, why_not

MIB, GIB = 1 << 20, 1 << 30
LINUX, MAC = Machine("Linux", cpus=(0, 1, 2, 3)), Machine("Darwin")


def spec(
    gpus: tuple[str, ...] | None = None,
    *,
    cpus: tuple[int, ...] = (),
    mode: LoadMode = LoadMode.AUTO,
    limit: int | None = None,
) -> LaunchSpec:
    return LaunchSpec("m", "command", device=Device(gpus, cpus), load_mode=mode, allocator_limit=limit)


@pytest.mark.parametrize(
    ("launch", "machine", "reason"),
    [
        (spec(), LINUX, None),
        (spec(cpus=(0, 3)), LINUX, None),
        (spec(cpus=(3, 4)), LINUX, "device.cpus names CPU 4, and what may be used here is 0-3"),
        (
            spec(cpus=(2, 4, 5, 9)),
            Machine(cpus=(0, 2, 3)),
            "device.cpus names CPUs 4-5, 9, and what may be used here is 0, 2-3",
        ),
        # Where they cannot be chosen nothing is refused.
        (spec(cpus=(99,)), MAC, None),
        (spec(("0", "1")), Machine(gpus=2), None),
        (
            spec(("1", "2", "7")),
            Machine(gpus=2),
            "device.gpus names 2, 7, and there are 2 GPUs here, 0 to 1",
        ),
        (spec(("1",)), Machine(gpus=1), "device.gpus names 1, and there is one GPU here, number 0"),
        # Neither of these is certain.
        (spec(("1",)), Machine(gpus=None), None),
        (spec(("1",)), Machine(gpus=0), None),
        (spec(("GPU-8a3c",)), Machine(gpus=1), None),
        (spec(()), Machine(gpus=1), None),
    ],
)
def test_refusals(launch: LaunchSpec, machine: Machine, reason: str | None) -> None:
    assert why_not(launch, machine) == reason


LIMIT = "memory.limit has no effect here: only PyTorch on the GPU of a Mac can be told a limit from outside"


@pytest.mark.parametrize(
    ("launch", "machine", "limited", "said"),
    [
        (spec(), LINUX, False, ()),
        (spec(cpus=(1,)), LINUX, False, ()),
        (
            spec(cpus=(1,)),
            MAC,
            False,
            ("device.cpus has no effect: Darwin lets no program choose its CPUs; device.nice has",),
        ),
        (spec(("0",)), MAC, False, ()),
        (
            spec(("1",)),
            MAC,
            False,
            ("device.gpus: 1 has no effect: a Mac has one GPU for models, number 0",),
        ),
        (
            spec(()),
            MAC,
            False,
            ("device.gpus: none hides no GPU of a Mac: the engine's own settings decide whether it is used",),
        ),
        (
            spec(("0",)),
            Machine(gpus=0),
            False,
            ("device.gpus: 0, but no GPU is seen here: it will compute on the CPU, or not start",),
        ),
        (spec(()), Machine(gpus=0), False, ()),
        (
            spec(("GPU-8a3c",)),
            Machine(gpus=1),
            False,
            ("device.gpus: names are understood by CUDA and HIP only; Vulkan and Level Zero need numbers",),
        ),
        (spec(limit=GIB), LINUX, False, (LIMIT,)),
        (spec(limit=GIB), MAC, True, ()),
    ],
)
def test_what_has_no_effect_is_said(
    launch: LaunchSpec, machine: Machine, limited: bool, said: tuple[str, ...]
) -> None:
    assert tuple(notes(launch, machine, 4 * GIB, limited=limited)) == said


@pytest.mark.parametrize(
    ("mode", "lockable", "weights", "told"),
    [
        (LoadMode.MLOCK, 8 * MIB, 4 * GIB, True),
        (LoadMode.MLOCK, 4 * GIB, 4 * GIB, False),
        (LoadMode.MLOCK, None, 4 * GIB, False),
        (LoadMode.MLOCK, 8 * MIB, None, False),
        (LoadMode.MMAP, 8 * MIB, 4 * GIB, False),
        (LoadMode.MLOCK, 0, 4 * GIB, True),
    ],
)
def test_more_to_lock_than_may_be_locked(
    mode: LoadMode, lockable: int | None, weights: int | None, told: bool
) -> None:
    found = list(notes(spec(mode=mode), Machine(lockable=lockable), weights, limited=False))
    assert bool(found) is told
    if told:
        assert "it is to lock 4.0 GiB of weights, and" in found[0]
        assert found[0].endswith(
            "raise it: LimitMEMLOCK=infinity in the unit, or memlock in /etc/security/limits.conf"
        )


def status(uid: int, effective: int, ambient: int = 0) -> str:
    return f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{effective:016x}\nCapAmb:\t{ambient:016x}\n"


OUTERMOST = "         0          0 4294967295\n"


@pytest.mark.parametrize(
    ("text", "uid_map", "free"),
    [
        (status(0, 0x1FFFFFFFFFF), OUTERMOST, True),
        # A container's root without the right, and the root of a user namespace, which has it there only.
        (status(0, 0x1FFFFFFFFFF & ~(1 << 14)), OUTERMOST, False),
        (status(0, 0x1FFFFFFFFFF), "         0     100000      65536\n", False),
        # What a user has himself is not handed on to what he starts, unless it is ambient.
        (status(1000, 1 << 14), OUTERMOST, False),
        (status(1000, 1 << 14, 1 << 14), OUTERMOST, True),
        (status(1000, 0), OUTERMOST, False),
        ("", "", False),
    ],
)
def test_who_may_lock_any_amount(
    text: str, uid_map: str, free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"proc/self/status": text, "proc/self/uid_map": uid_map})
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (1, 8 * MIB))
    assert lockable_bytes(tmp_path) == (None if free else 8 * MIB)
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (1, resource.RLIM_INFINITY))
    assert lockable_bytes(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of macOS has no such thing")
def test_more_cpus_than_we_run_on_ourselves() -> None:
    ours = os.sched_getaffinity(0)
    everything = reachable_cpus()
    assert everything is not None
    assert ours <= set(everything)
    os.sched_setaffinity(0, {min(ours)})
    try:
        assert reachable_cpus() == everything
        assert os.sched_getaffinity(0) == {min(ours)}
    finally:
        os.sched_setaffinity(0, ours)


def test_only_what_a_launch_asks_for_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("asked")

    for name in ("reachable_cpus", "count_gpus", "lockable_bytes"):
        monkeypatch.setattr(placement, name, never)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert machine_for(spec()) == Machine("Linux")
