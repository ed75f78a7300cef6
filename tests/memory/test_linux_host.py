"""`LinuxMachine.read` on recorded figures: corrections of the host, control groups, swap, stalls, who holds what."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from linux_trees import GIB, KIB, MEMINFO, kib_lines, plain_lines, write_files
from reconciler.core.memory import GpuPool, HostUse, Memory, Stall, Swap
from reconciler.memory.linux import LinuxMachine
from reconciler.memory.probe import MachineProbe

V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
V1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
NO_LIMIT_V1 = 9223372036854771712
HOST = kib_lines(MemTotal=32 << 20, MemFree=1 << 20, MemAvailable=24 << 20, SwapTotal=0, SwapFree=0)


def read(root: Path, files: Mapping[str, str], page_size: int = 4096) -> Memory:
    return LinuxMachine(write_files(root, files), page_size=page_size).read(0.0)


@dataclass
class Device:
    """A GPU driver that says what it is told to."""

    name: str = "amdgpu"
    gpu: GpuPool | None = None
    by_pid: Mapping[int, int] | None = None
    said: tuple[str, ...] = ()
    asked: list[list[int]] = field(default_factory=list)

    def pool(self) -> GpuPool | None:
        return self.gpu

    def held(self, pids: Collection[int]) -> Mapping[int, int] | None:
        self.asked.append(sorted(pids))
        return self.by_pid

    def problems(self) -> tuple[str, ...]:
        return self.said


# -- control groups ---------------------------------------------------------------------------------------------


def group(path: str, limit: object, usage: int, file: int = 0, inactive: int = 0) -> dict[str, str]:
    return {
        f"sys/fs/cgroup/{path}memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{path}memory.current": f"{usage}\n",
        f"sys/fs/cgroup/{path}memory.stat": plain_lines(
            anon=usage - file, file=file, inactive_file=inactive, active_file=file - inactive
        ),
    }


def tree(cgroup: str, files: Mapping[str, str], mounts: str = V2, meminfo: str = HOST) -> dict[str, str]:
    return {"proc/meminfo": meminfo, "proc/self/cgroup": cgroup, "proc/mounts": mounts, **files}


IN_V1 = "sys/fs/cgroup/memory/"
TREES = {
    "no limit": (tree("0::/app\n", group("app/", "max", 28 * GIB, 20 * GIB)), 32, 24),
    "page cache is not used memory": (
        tree("0::/app\n", group("app/", 16 * GIB, 15 * GIB, 12 * GIB, 11 * GIB)),
        16,
        12,
    ),
    "limit of the parent": (
        tree(
            "0::/svc.slice/app\n",
            group("svc.slice/app/", "max", GIB) | group("svc.slice/", 8 * GIB, 6 * GIB, GIB, GIB),
        ),
        8,
        3,
    ),
    "a sibling fills the parent": (
        tree(
            "0::/svc.slice/app\n",
            group("svc.slice/app/", 8 * GIB, GIB) | group("svc.slice/", 10 * GIB, 9 * GIB),
        ),
        8,
        1,
    ),
    "namespaced root": (tree("0::/\n", group("", 4 * GIB, GIB)), 4, 3),
    "the root has no files": (tree("0::/app\n", group("app/", 4 * GIB, GIB)), 4, 3),
    "version 1": (
        tree(
            "4:memory:/box/1\n0::/\n",
            {
                f"{IN_V1}box/1/memory.limit_in_bytes": f"{6 * GIB}\n",
                f"{IN_V1}box/1/memory.usage_in_bytes": f"{2 * GIB}\n",
                f"{IN_V1}box/1/memory.stat": plain_lines(
                    total_inactive_file=GIB, hierarchical_memory_limit=6 * GIB
                ),
            },
            V1,
        ),
        6,
        5,
    ),
    "version 1 without a limit": (
        tree(
            "4:memory:/\n",
            {
                f"{IN_V1}memory.limit_in_bytes": f"{NO_LIMIT_V1}\n",
                f"{IN_V1}memory.usage_in_bytes": f"{20 * GIB}\n",
            },
            V1,
        ),
        32,
        24,
    ),
    "a limit that is garbage": (tree("0::/app\n", {"sys/fs/cgroup/app/memory.max": "banana\n"}), 32, 24),
}


@pytest.mark.parametrize("name", TREES)
def test_total_and_available(tmp_path: Path, name: str) -> None:
    files, total, available = TREES[name]
    found = read(tmp_path, files)
    assert (found.total, found.available) == (total * GIB, available * GIB), found.source
    said = " ".join(found.problems)
    assert ("memory.max of control group /app is unreadable, not applied" in said) == ("garbage" in name)


UNREADABLE = "degraded: {} of control group /app is unreadable, not applied: {!r}"
NOTHING = "degraded: {} of control group /app is 0, which leaves nothing: not applied"
#: memory.max and memory.high of one group, the GiB that bind, and what is said of the other.
PAIRS = {
    "both": (16 * GIB, 8 * GIB, 8, ()),
    "high is no number": (16 * GIB, "banana", 16, (UNREADABLE.format("memory.high", "banana"),)),
    "high is empty": (16 * GIB, "", 16, (UNREADABLE.format("memory.high", ""),)),
    "high is 0": (16 * GIB, 0, 16, (NOTHING.format("memory.high"),)),
    "max is no number": ("banana", 8 * GIB, 8, (UNREADABLE.format("memory.max", "banana"),)),
    "max is 0": (0, 8 * GIB, 8, (NOTHING.format("memory.max"),)),
    "only high, and it is 0": ("max", 0, 32, (NOTHING.format("memory.high"),)),
    "neither": (
        "-1",
        "x" * 99,
        32,
        (UNREADABLE.format("memory.max", "-1"), UNREADABLE.format("memory.high", "x" * 40)),
    ),
}


def of_groups(found: Memory) -> tuple[str, ...]:
    return tuple(problem for problem in found.problems if "control group" in problem)


@pytest.mark.parametrize("name", PAIRS)
def test_of_two_limits_the_one_that_can_be_read_binds(tmp_path: Path, name: str) -> None:
    most, high, total, said = PAIRS[name]
    files = group("app/", most, 2 * GIB) | {"sys/fs/cgroup/app/memory.high": f"{high}\n"}
    found = read(tmp_path, tree("0::/app\n", files))
    assert (found.total, found.available) == (total * GIB, 24 * GIB if total == 32 else (total - 2) * GIB)
    assert of_groups(found) == said


def test_version_1_still_states_the_limits_above_an_unreadable_one(tmp_path: Path) -> None:
    files = {
        f"{IN_V1}app/memory.limit_in_bytes": "banana\n",
        f"{IN_V1}app/memory.usage_in_bytes": f"{GIB}\n",
        f"{IN_V1}app/memory.stat": plain_lines(hierarchical_memory_limit=5 * GIB),
    }
    found = read(tmp_path, tree("4:memory:/app\n", files, V1))
    assert (found.total, found.available) == (5 * GIB, 4 * GIB)
    assert of_groups(found) == (UNREADABLE.format("memory.limit_in_bytes", "banana"),)


def test_free_memory_alone_is_no_answer(tmp_path: Path) -> None:
    meminfo = kib_lines(MemTotal=32 << 20, MemFree=1 << 20)
    found = read(tmp_path, tree("0::/app\n", group("app/", "max", GIB), meminfo=meminfo))
    assert (found.total, found.available) == (32 * GIB, None)
    assert any("MemAvailable" in problem for problem in found.problems)


HYBRID_CGROUP = "9:name=systemd:/\n8:pids:/\n5:devices:/\n4:memory:/box/9305\n3:cpuset:/\n1:cpu:/\n0::/\n"
HYBRID_MOUNTS = "".join(
    f"{n} 31 0:{n} / /sys/fs/cgroup/{name} rw,relatime - {kind} {kind} {options}\n"
    for n, name, kind, options in [
        (32, "cpu", "cgroup", "rw,cpu"),
        (35, "memory", "cgroup", "rw,memory"),
        (40, "systemd", "cgroup", "rw,name=systemd"),
        (41, "unified", "cgroup2", "rw"),
    ]
)
#: What a group without a limit says in version 1: a cache that is nearly all active and hardly mapped.
V1_STAT = plain_lines(
    inactive_file=1,
    hierarchical_memory_limit=NO_LIMIT_V1,
    total_mapped_file=4096,
    total_inactive_file=10551296,
    total_active_file=253865984,
)


@pytest.mark.parametrize(
    ("limit", "total", "available"),
    [
        (NO_LIMIT_V1, 24684096 * KIB, 10762656 * KIB),
        # usage - inactive - active = 12861440
        (GIB, GIB, GIB - 12861440),
    ],
)
def test_a_hybrid_machine(tmp_path: Path, limit: int, total: int, available: int) -> None:
    box = f"{IN_V1}box/9305/"
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": HYBRID_CGROUP,
        "proc/self/mountinfo": HYBRID_MOUNTS,
        f"{box}memory.limit_in_bytes": f"{limit}\n",
        f"{box}memory.usage_in_bytes": "277278720\n",
        f"{box}memory.stat": V1_STAT,
    }
    found = read(tmp_path, files)
    assert (found.total, found.available) == (total, available)
    assert found.problems == ()


def test_a_group_that_was_made_anew_elsewhere_is_found_at_once(tmp_path: Path) -> None:
    machine = LinuxMachine(write_files(tmp_path, tree("0::/a\n", group("a/", 8 * GIB, GIB))))
    assert machine.read(0.0).total == 8 * GIB
    for file in (tmp_path / "sys/fs/cgroup/a").iterdir():
        file.unlink()
    write_files(tmp_path, tree("0::/b\n", group("b/", 4 * GIB, GIB)))
    assert machine.read(1.0).total == 4 * GIB


def test_a_move_to_another_group_is_found_within_a_minute(tmp_path: Path) -> None:
    both = group("a/", 8 * GIB, GIB) | group("b/", 4 * GIB, GIB)
    machine = LinuxMachine(write_files(tmp_path, tree("0::/a\n", both)))
    assert machine.read(0.0).total == 8 * GIB
    write_files(tmp_path, tree("0::/b\n", {}))
    assert machine.read(59.0).total == 8 * GIB
    assert machine.read(60.0).total == 4 * GIB


def test_limits_are_read_each_time(tmp_path: Path) -> None:
    machine = LinuxMachine(write_files(tmp_path, tree("0::/a\n", group("a/", 8 * GIB, GIB))))
    assert machine.read(0.0).available == 7 * GIB
    write_files(tmp_path, group("a/", 6 * GIB, 2 * GIB))
    assert machine.read(1.0).available == 4 * GIB


# -- the host ---------------------------------------------------------------------------------------------------


def test_a_machine_as_its_kernel_stated_it(tmp_path: Path) -> None:
    found = read(tmp_path, {"proc/meminfo": MEMINFO})
    assert found == Memory(
        24684096 * KIB,
        10762656 * KIB,
        "/proc/meminfo",
        swap=Swap(0, 0, None, None),
        stall=Stall(compressed=0),
        host=HostUse(24684096 * KIB, 10762656 * KIB, 13344812 * KIB, 95924 * KIB, 0),
    )


def test_a_container_that_sees_its_host(tmp_path: Path) -> None:
    """The kernel's page tables and stacks are not stated here, nor SUnreclaim: it is the rest of the slab."""
    meminfo = kib_lines(
        MemTotal=1056450248,
        MemFree=151986772,
        MemAvailable=880426716,
        SwapTotal=0,
        SwapFree=0,
        AnonPages=137026152,
        Shmem=12969348,
        Slab=13363736,
        SReclaimable=10153360,
    )
    found = read(tmp_path, tree("0::/\n", group("", 90 * GIB, 10 * GIB), meminfo=meminfo))
    assert (found.total, found.available) == (90 * GIB, 80 * GIB)
    assert found.host == HostUse(1056450248 * KIB, 880426716 * KIB, 149995500 * KIB, 3210376 * KIB, 0)


#: Pages (KiB) of a machine out of memory: 9.65 GiB are free, but 8.92 GiB of that only for movable pages.
OUT_OF_MEMORY = kib_lines(
    MemTotal=127 << 20,
    MemFree=2529990 * 4,
    Active_file=66 * 4,
    Inactive_file=1002 * 4,
    SReclaimable=9423 * 4,
    CmaFree=2338786 * 4,
)


def test_gpu_drivers_cannot_use_cma_pages(tmp_path: Path) -> None:
    write_files(tmp_path, {"proc/meminfo": OUT_OF_MEMORY})
    without = LinuxMachine(tmp_path).read(0.0)
    assert without.available == 2540481 * 4 * KIB
    probe: MachineProbe = LinuxMachine(tmp_path, [Device()])
    with_gpu = probe.read(0.0)
    assert with_gpu.available == 201695 * 4 * KIB
    assert "MemAvailable is missing" in with_gpu.source
    assert "less the free CMA pages" in with_gpu.source


ARCSTATS = "13 1 0x01 123 33456 1 2\nname                            type data\n"


@pytest.mark.parametrize(
    ("arcstats", "more", "problems"),
    [
        (
            "c_min                           4    2147483648\nsize                            4    6442450944\n",
            2,
            0,
        ),
        (
            "c_min                           4    2147483648\nsize                            4    1073741824\n",
            0,
            0,
        ),
        # More than the machine has left is no more than the machine.
        ("c_min                           4    0\nsize                            4    32212254720\n", 8, 0),
        ("memory_all_bytes                4    33506664448\nmemory_free_bytes  4    5882482688\n", 0, 1),
        (
            "c_min                           4    0\nsize                            4    99999999999999\n",
            0,
            1,
        ),
        ("c_min                           4    0\nsize                            4    -1\n", 0, 1),
    ],
)
def test_half_of_the_zfs_cache_can_be_had(tmp_path: Path, arcstats: str, more: int, problems: int) -> None:
    files = {"proc/meminfo": HOST, "proc/spl/kstat/zfs/arcstats": ARCSTATS + arcstats}
    found = read(tmp_path, files)
    assert found.available == (24 + more) * GIB
    assert ("ZFS" in found.source) == (more > 0)
    assert len([problem for problem in found.problems if "ZFS" in problem]) == problems


@pytest.mark.parametrize(
    ("lines", "pools"),
    [
        ("HugePages_Total:    1024\nHugepagesize:    2048 kB\n", 2 * GIB),
        # Pages of 1 GiB beside those of the default size.
        ("HugePages_Total:    1024\nHugepagesize:    2048 kB\nHugetlb:    6291456 kB\n", 6 * GIB),
        ("", 0),
    ],
)
def test_huge_pages_are_a_pool_of_their_own(tmp_path: Path, lines: str, pools: int) -> None:
    meminfo = kib_lines(MemTotal=32 << 20, MemAvailable=20 << 20, AnonPages=1, Shmem=2, SUnreclaim=3) + lines
    found = read(tmp_path, {"proc/meminfo": meminfo})
    assert found.host == HostUse(32 * GIB, 20 * GIB, 3 * KIB, 3 * KIB, pools)
    assert found.available == 20 * GIB


# -- swap, stalls, GPU ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [4096, 16384])
def test_swap_counters_are_pages(tmp_path: Path, page_size: int) -> None:
    files = {
        "proc/meminfo": kib_lines(
            MemTotal=32 << 20, MemAvailable=9 << 20, SwapTotal=8 << 20, SwapFree=5 << 20
        ),
        "proc/vmstat": plain_lines(
            workingset_refault_file=312378, pswpin=7, pswpout=11, pgmajfault=1208, zswpin=3
        ),
    }
    found = read(tmp_path, files, page_size=page_size)
    assert found.swap == Swap(8 * GIB, 3 * GIB, 7 * page_size, 11 * page_size)
    assert found.available == 9 * GIB  # free swap is never added


def test_a_machine_without_swap(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": HOST,
        "proc/vmstat": plain_lines(pgmajfault=1208, pswpin=0, pswpout=0, oom_kill=0),
    }
    assert read(tmp_path, files).swap == Swap(0, 0, 0, 0)


def test_compressed_memory_of_all_pools(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": HOST + "Zswap:  1024 kB\n",
        "sys/block/zram0/mm_stat": " 4294967296 1073741824 1100000000 0 1200000000 5 0 1 2\n",
        "sys/block/zram1/mm_stat": "       0        0        0        0        0        0        0        0        0\n",
        "sys/block/sda/stat": "1 2 3\n",
    }
    assert read(tmp_path, files).stall.compressed == 1100000000 + 1024 * KIB


def test_without_zram_and_zswap_nothing_is_known_to_be_compressed(tmp_path: Path) -> None:
    assert read(tmp_path, {"proc/meminfo": HOST}).stall.compressed is None


def pressure(some: float, full: float) -> str:
    rest = "avg60=0.00 avg300=0.00 total=1"
    return f"some avg10={some:.2f} {rest}\nfull avg10={full:.2f} {rest}\n"


def test_the_worst_stall_of_machine_and_own_group(tmp_path: Path) -> None:
    files = tree("0::/svc/app\n", group("svc/app/", "max", GIB)) | {
        "proc/pressure/memory": pressure(1.5, 0.5),
        "sys/fs/cgroup/svc/app/memory.pressure": pressure(30, 0.25),
        "sys/fs/cgroup/svc/memory.pressure": pressure(90, 90),  # somebody else in the group above us
    }
    assert read(tmp_path, files).stall == Stall(some=30.0, full=0.5)


def test_the_first_pool_that_a_driver_knows(tmp_path: Path) -> None:
    write_files(tmp_path, {"proc/meminfo": HOST})
    known = GpuPool(96 * GIB, GIB, "gtt")
    devices = [Device(said=("amdgpu: no totals",)), Device("nvidia", gpu=known), Device(gpu=GpuPool(1))]
    found = LinuxMachine(tmp_path, devices).read(0.0)
    assert found.gpu == known
    assert "amdgpu: no totals" in found.problems


def test_a_glance_says_what_is_left_on_the_machine_and_in_its_groups(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8192 kB\nMemAvailable: 4096 kB\n")
    machine = LinuxMachine(tmp_path, page_size=4096)
    assert machine.glance(0.0) == 4096 * 1024
    (tmp_path / "proc/self/cgroup").write_text("0::/app\n")
    (tmp_path / "proc/mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    group = tmp_path / "sys/fs/cgroup/app"
    group.mkdir(parents=True)
    for name, text in (("max", 3 << 20), ("current", 2 << 20), ("stat", "inactive_file 524288")):
        (group / f"memory.{name}").write_text(f"{text}\n")
    (group / "memory.high").write_text("max\n")
    assert machine.glance(100.0) == (1 << 20) + (1 << 19)
    (group / "memory.current").write_text("lots\n")
    assert machine.glance(101.0) is None
    (tmp_path / "proc/meminfo").unlink()
    assert machine.glance(102.0) is None
