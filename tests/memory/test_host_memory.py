"""Total and available memory on small fake /proc and /sys trees: machine, control groups, unreadable ones."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.core.memory import Memory
from reconciler.memory.linux import LinuxMachine

GIB = 1024**3
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
V1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
NO_LIMIT_V1 = "9223372036854771712"


def meminfo(**kib: int) -> str:
    return "".join(f"{key}:  {value} kB\n" for key, value in kib.items())


HOST = meminfo(MemTotal=32 << 20, MemFree=1 << 20, MemAvailable=24 << 20, SwapTotal=0)


def plain(fields: Mapping[str, int]) -> str:
    return "".join(f"{key} {value}\n" for key, value in fields.items())


def v2(group: str, limit: object, usage: int, **stat: int) -> dict[str, str]:
    base = f"sys/fs/cgroup{group.rstrip('/')}"
    return {
        f"{base}/memory.max": f"{limit}\n",
        f"{base}/memory.current": f"{usage}\n",
        f"{base}/memory.stat": plain(stat or {"cache": 0}),
    }


def v1(group: str, limit: object, usage: int, **stat: int) -> dict[str, str]:
    base = f"sys/fs/cgroup/memory{group.rstrip('/')}"
    return {
        f"{base}/memory.limit_in_bytes": f"{limit}\n",
        f"{base}/memory.usage_in_bytes": f"{usage}\n",
        f"{base}/memory.stat": plain(stat or {"cache": 0}),
    }


@dataclass(frozen=True)
class Tree:
    """One fake machine."""

    cgroup: str = "0::/\n"
    files: Mapping[str, str] = field(default_factory=dict)
    mounts: str = V2
    mountinfo: str | None = None
    meminfo: str = HOST

    def write(self, root: Path) -> Path:
        texts = {
            "proc/meminfo": self.meminfo,
            "proc/self/cgroup": self.cgroup,
            "proc/mounts": self.mounts,
            **self.files,
        }
        if self.mountinfo is not None:
            texts["proc/self/mountinfo"] = self.mountinfo
        for name, text in texts.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root


def mountinfo(root: str, point: str, kind: str = "cgroup2", options: str = "rw") -> str:
    return (
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
        f"41 31 0:38 {root} {point} rw,relatime shared:9 - {kind} {kind} {options}\n"
    )


def read(root: Path) -> Memory:
    return LinuxMachine(root, page_size=4096).read(0.0)


CASES = {
    "no limit": (Tree("0::/app\n", v2("/app", "max", 28 * GIB, inactive_file=20 * GIB)), 32, 24),
    "inactive page cache is not used memory": (
        Tree("0::/app\n", v2("/app", 16 * GIB, 15 * GIB, inactive_file=11 * GIB, active_file=GIB)),
        16,
        12,
    ),
    "what models that have gone left in the cache is not used memory": (
        Tree("0::/app\n", v2("/app", 8 * GIB, 6 * GIB, active_file=4 * GIB, file_mapped=0)),
        8,
        6,
    ),
    "nor are mapped weights": (
        Tree("0::/app\n", v2("/app", 8 * GIB, 6 * GIB, active_file=4 * GIB, file_mapped=3 * GIB)),
        8,
        6,
    ),
    "active pages are, where mapped ones are not told from others": (
        Tree("0::/app\n", v2("/app", 8 * GIB, 6 * GIB, active_file=4 * GIB)),
        8,
        2,
    ),
    "slab": (Tree("0::/app\n", v2("/app", 8 * GIB, 6 * GIB, slab_reclaimable=GIB)), 8, 3),
    "a parent's limit with the parent's usage": (
        Tree(
            "0::/svc.slice/app\n",
            v2("/svc.slice/app", "max", GIB) | v2("/svc.slice", 8 * GIB, 6 * GIB, inactive_file=GIB),
        ),
        8,
        3,
    ),
    "a sibling eats the parent": (
        Tree(
            "0::/svc.slice/app\n",
            v2("/svc.slice/app", 8 * GIB, GIB) | v2("/svc.slice", 10 * GIB, 9 * GIB),
        ),
        8,
        1,
    ),
    "own group is the root in a container": (Tree("0::/\n", v2("/", 4 * GIB, GIB)), 4, 3),
    "the root has no files": (Tree("0::/app\n", v2("/app", 4 * GIB, GIB)), 4, 3),
    "memory.high is a limit": (
        Tree("0::/app\n", v2("/app", "max", GIB) | {"sys/fs/cgroup/app/memory.high": f"{3 * GIB}\n"}),
        3,
        2,
    ),
    "usage above the limit leaves nothing": (Tree("0::/app\n", v2("/app", 4 * GIB, 5 * GIB)), 4, 0),
    "version 1": (
        Tree("4:memory:/box/1\n0::/\n", v1("/box/1", 6 * GIB, 2 * GIB, total_inactive_file=GIB), V1),
        6,
        5,
    ),
    "version 1 among other controllers": (
        Tree(
            "4:cpu,memory:/box\n",
            v1("/box", 6 * GIB, 2 * GIB),
            "cgroup /sys/fs/cgroup/memory cgroup rw,cpu,memory 0 0\n",
        ),
        6,
        4,
    ),
    "version 1 without a limit": (Tree("4:memory:/\n", v1("/", NO_LIMIT_V1, 20 * GIB), V1), 32, 24),
    "version 1, limit of an invisible parent": (
        Tree("4:memory:/\n", v1("/", NO_LIMIT_V1, 2 * GIB, hierarchical_memory_limit=5 * GIB), V1),
        5,
        3,
    ),
    "hybrid: version 2 without memory files": (
        Tree("4:memory:/box\n0::/user\n", v1("/box", 6 * GIB, 2 * GIB), V1 + V2),
        6,
        4,
    ),
    "the mount shows a subtree": (
        Tree(
            "0::/docker/abc/worker\n",
            v2("/", 4 * GIB, GIB),
            mountinfo=mountinfo("/docker/abc", "/sys/fs/cgroup"),
        ),
        4,
        3,
    ),
    "a blank in the mount point": (
        Tree(
            "0::/app\n",
            {
                "mnt/my groups/app/memory.max": f"{4 * GIB}\n",
                "mnt/my groups/app/memory.current": f"{GIB}\n",
            },
            mountinfo=mountinfo("/", "/mnt/my\\040groups"),
        ),
        4,
        3,
    ),
    "our group lies outside the mount": (
        Tree("0::/../other\n", v2("/", 4 * GIB, GIB)),
        4,
        3,
    ),
    "no control groups at all": (Tree(cgroup="", mounts=""), 32, 24),
    "a limit above the machine with unknown usage": (
        Tree("0::/app\n", {"sys/fs/cgroup/app/memory.max": f"{64 * GIB}\n"}),
        32,
        24,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_total_and_available(tmp_path: Path, name: str) -> None:
    tree, total, available = CASES[name]
    found = read(tree.write(tmp_path))
    assert (found.total, found.available) == (total * GIB, available * GIB), found.source


def test_the_source_names_the_group_that_limits(tmp_path: Path) -> None:
    tree = Tree("0::/svc/app\n", v2("/svc", 8 * GIB, 6 * GIB))
    assert "control group /svc" in read(tree.write(tmp_path)).source


def test_a_limit_that_is_no_number_is_said_and_the_machine_counts(tmp_path: Path) -> None:
    tree = Tree("0::/app\n", {"sys/fs/cgroup/app/memory.max": "banana\n"})
    found = read(tree.write(tmp_path))
    assert (found.total, found.available) == (32 * GIB, 24 * GIB)
    assert "degraded" in found.source
    assert "/app" in found.source
    assert "banana" in found.source


def test_a_limit_whose_usage_cannot_be_read_leaves_available_unknown(tmp_path: Path) -> None:
    tree = Tree("0::/app\n", {"sys/fs/cgroup/app/memory.max": f"{4 * GIB}\n"})
    found = read(tree.write(tmp_path))
    assert (found.total, found.available) == (4 * GIB, None)
    assert "usage of control group /app" in found.source


UNKNOWN = {
    "free memory alone is no answer": meminfo(MemTotal=32 << 20, MemFree=1 << 20),
    "zero and no parts": meminfo(MemTotal=32 << 20, MemFree=1 << 20, MemAvailable=0),
}


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_available_is_unknown_rather_than_guessed(tmp_path: Path, text: str) -> None:
    found = read(Tree(meminfo=text).write(tmp_path))
    assert (found.total, found.available) == (32 * GIB, None)
    assert "MemAvailable" in found.source


@pytest.mark.parametrize("stated", [{}, {"MemAvailable": 0}])
def test_without_memavailable_its_parts_are_added(tmp_path: Path, stated: dict[str, int]) -> None:
    parts = {"MemFree": 1 << 20, "Active(file)": 2 << 20, "Inactive(file)": 3 << 20, "SReclaimable": 1 << 20}
    found = read(Tree(meminfo=meminfo(MemTotal=32 << 20, **stated, **parts)).write(tmp_path))
    assert found.available == 7 * GIB


def test_no_meminfo_is_unknown_with_a_reason(tmp_path: Path) -> None:
    reason = f"{tmp_path}/proc/meminfo cannot be read"
    assert read(tmp_path) == Memory(None, None, reason, problems=(reason,))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_machine() -> None:
    found = LinuxMachine().read(0.0)
    assert found.total is not None
    assert found.available is not None
    assert 0 < found.available <= found.total


@pytest.mark.parametrize(
    ("case", "files"),
    [
        ("no limit", None),
        ("inactive page cache is not used memory", 11 * GIB),
        ("nor are mapped weights", 4 * GIB),
        ("slab", 0),
    ],
)
def test_where_a_group_binds_its_own_file_pages_are_told(
    case: str, files: int | None, tmp_path: Path
) -> None:
    assert read(CASES[case][0].write(tmp_path)).files == files
