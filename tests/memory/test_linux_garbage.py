"""Any file of /proc and /sys may hold anything: then its figure is unknown and said, and nothing is raised."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linux_trees import GIB, KIB, MIB, Mapped, kib_lines, plain_lines, process, smaps, status, write_files
from reconciler.core.memory import Basis, Memory
from reconciler.memory.linux import LinuxMachine
from reconciler.memory.probe import Held

PRESSURE = "some avg10=1.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=1\n"
GROUP = "sys/fs/cgroup/app"
#: A machine on which every probe has something to read, and one process with 64 MiB of weights.
FILES = {
    "proc/meminfo": kib_lines(
        MemTotal=32 << 20,
        MemFree=1 << 20,
        MemAvailable=24 << 20,
        SwapTotal=8 << 20,
        SwapFree=7 << 20,
        Zswap=4,
        AnonPages=4 << 20,
        Shmem=1,
        SUnreclaim=1,
        CmaFree=0,
    ),
    "proc/vmstat": plain_lines(nr_free_pages=5, pswpin=1, pswpout=2),
    "proc/pressure/memory": PRESSURE,
    "proc/spl/kstat/zfs/arcstats": "13 1 0x01\nname type data\nc_min 4 0\nsize 4 2147483648\n",
    "proc/self/cgroup": "0::/app\n",
    "proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n",
    "sys/block/zram0/mm_stat": "100 50 60 0 0 0 0 0 0\n",
    f"{GROUP}/memory.max": f"{16 * GIB}\n",
    f"{GROUP}/memory.high": "max\n",
    f"{GROUP}/memory.current": f"{6 * GIB}\n",
    f"{GROUP}/memory.stat": plain_lines(anon=1, inactive_file=2 * GIB),
    **process(
        7,
        status(anon=100 * KIB, file=70 * KIB),
        smaps(Mapped("/w", 64 * KIB, inode=5), Mapped("/lib.so", 6 * KIB, inode=6, mode="r-xp")),
    ),
}


def look(root: Path) -> tuple[Memory, Held]:
    machine = LinuxMachine(root, page_size=4096)
    machine.read(0.0)
    held = machine.held({"a": [7]}, 0.0)["a"]
    return machine.read(0.0), held


def test_all_is_known_where_nothing_is_garbage(tmp_path: Path) -> None:
    memory, held = look(write_files(tmp_path, FILES))
    assert memory.problems == ()
    assert (memory.total, memory.available) == (16 * GIB, 12 * GIB)
    assert memory.host is not None
    assert memory.host.available == 25 * GIB
    assert (memory.swap.used, memory.swap.read, memory.swap.written) == (GIB, 4096, 8192)
    assert (memory.stall.some, memory.stall.full, memory.stall.compressed) == (1.0, 0.5, 60 + 4 * KIB)
    assert (held.committed, held.warm, held.warm_basis) == (100 * MIB, 64 * MIB, Basis.MEASURED)


JUNK = {
    "empty": b"",
    "text": b"banana\n",
    "negative": b"-5\n",
    "binary": bytes(range(256)),
    "absurd": b"9" * 30 + b"\n",
    "endless number": b"9" * 5000,
}
#: What is unknown where a file is junk. The rest must still be known.
UNKNOWN: dict[str, Callable[[Memory, Held], bool]] = {
    "proc/meminfo": lambda memory, _: memory.total is None and memory.available is None,
    "proc/vmstat": lambda memory, _: memory.swap.read is None and memory.swap.used == GIB,
    "proc/pressure/memory": lambda memory, _: (
        memory.stall.some is None and memory.stall.compressed is not None
    ),
    "proc/spl/kstat/zfs/arcstats": lambda memory, _: (
        memory.host is not None and memory.host.available == 24 * GIB
    ),
    # A limit that cannot be understood is not applied, another of the same group is. Usage that cannot leaves
    # available unknown.
    "proc/self/cgroup": lambda memory, _: (memory.total, memory.available) == (32 * GIB, 25 * GIB),
    "proc/self/mountinfo": lambda memory, _: (memory.total, memory.available) == (32 * GIB, 25 * GIB),
    "sys/block/zram0/mm_stat": lambda memory, _: memory.stall.compressed is None and memory.stall.some == 1.0,
    f"{GROUP}/memory.max": lambda memory, _: (memory.total, memory.available) == (32 * GIB, 25 * GIB),
    f"{GROUP}/memory.high": lambda memory, _: (memory.total, memory.available) == (16 * GIB, 12 * GIB),
    f"{GROUP}/memory.current": lambda memory, _: (memory.total, memory.available) == (16 * GIB, None),
    f"{GROUP}/memory.stat": lambda memory, _: (memory.total, memory.available) == (16 * GIB, None),
    "proc/7/status": lambda _, held: held.committed is None and held.warm == 64 * MIB,
    "proc/7/smaps": lambda _, held: held.warm_basis is Basis.ESTIMATED and held.committed == 100 * MIB,
}
#: Not garbage: a machine without control groups, and what a process says that is just ending.
NO_PROBLEM = {("proc/self/cgroup", "empty"), ("proc/7/smaps", "empty")}


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("name", UNKNOWN)
def test_junk_is_unknown_and_said(tmp_path: Path, name: str, junk: str) -> None:
    memory, held = look(write_files(tmp_path, {**FILES, name: JUNK[junk]}))
    assert UNKNOWN[name](memory, held), (memory, held)
    assert bool(memory.problems) != ((name, junk) in NO_PROBLEM), memory.problems


ABSURD = {
    "MemAvailable": ("proc/meminfo", "MemAvailable:  25165824", "MemAvailable:  999999999"),
    "MemAvailable that is no number": ("proc/meminfo", "MemAvailable:  25165824", "MemAvailable:  -3"),
    "MemTotal": ("proc/meminfo", "MemTotal:  33554432", "MemTotal:  999999999999999"),
    "usage": (f"{GROUP}/memory.current", str(6 * GIB), str(33 * GIB)),
    "cache": (f"{GROUP}/memory.stat", str(2 * GIB), str(33 * GIB)),
}


@pytest.mark.parametrize("name", ABSURD)
def test_more_than_the_machine_has_leaves_available_unknown(tmp_path: Path, name: str) -> None:
    file, old, new = ABSURD[name]
    text = FILES[file]
    assert old in text
    memory, _ = look(write_files(tmp_path, {**FILES, file: text.replace(old, new)}))
    assert memory.available is None
    assert memory.problems


def test_programs_larger_than_the_machine_leave_its_use_unknown(tmp_path: Path) -> None:
    text = FILES["proc/meminfo"].replace("AnonPages:  4194304", "AnonPages:  41943040")
    memory, _ = look(write_files(tmp_path, {**FILES, "proc/meminfo": text}))
    assert memory.host is None
    assert memory.available == 12 * GIB
    assert "/proc/meminfo: AnonPages is larger than MemTotal, not believed" in memory.problems


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RssAnon:  102400", "RssAnon:  99999999"),
        ("RssAnon:  102400", "RssAnon:  -1"),
        ("RssShmem:  0", "RssShmem:  cat"),
        ("VmSwap:  0", "VmSwap:  999999999999999"),
        ("VmRSS:", "VmXYZ:"),
    ],
)
def test_a_status_that_cannot_be_true_is_unknown(tmp_path: Path, old: str, new: str) -> None:
    text = FILES["proc/7/status"]
    assert old in text
    text = text.replace(old, new) if new != "VmXYZ:" else "Name:\tserver\n" + kib_lines(VmXYZ=4)
    memory, held = look(write_files(tmp_path, {**FILES, "proc/7/status": text}))
    assert held.committed is None
    assert any("what a holds is unknown" in problem for problem in memory.problems)


@pytest.mark.parametrize("name", sorted(FILES))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_raises(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Any bytes, or the right text with some bytes replaced, in any one file."""
    good = FILES[name].encode()
    damage = data.draw(st.binary(max_size=60))
    place = data.draw(st.integers(0, len(good)))
    whole = data.draw(st.booleans())
    broken = damage if whole else good[:place] + damage + good[place + len(damage) :]
    memory, held = look(write_files(tmp_path, {**FILES, name: broken}))
    assert memory.total is None or 0 < memory.total <= 1 << 52
    assert memory.available is None or (memory.total and memory.available >= 0)
    assert held.committed is None or held.committed >= 0
    assert held.warm is None or held.warm >= 0
