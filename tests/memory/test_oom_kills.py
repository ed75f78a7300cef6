"""How often the kernel ended a process for want of memory, from the files of both versions of control groups."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.loop.oom_watch import BEFORE, OomWatch
from reconciler.memory import oom_kills
from small_machine import MIB, small_machine

V1 = {
    "proc/self/cgroup": "4:memory:/app\n",
    "proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "sys/fs/cgroup/memory/app/memory.limit_in_bytes": "1000\n",
    "sys/fs/cgroup/memory/app/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}
V2 = {
    "proc/self/cgroup": "0::/app\n",
    "proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/app/memory.max": "max\n",
    "sys/fs/cgroup/app/memory.events": "low 0\nhigh 7\nmax 9\noom 5\noom_kill 4\noom_group_kill 0\n",
}
MACHINE = {"proc/vmstat": "nr_free_pages 5\noom_kill 12\n"}


@pytest.mark.parametrize(
    ("files", "counters"),
    [
        (V1 | MACHINE, (3, 12)),
        (V2 | MACHINE, (4, 12)),
        (MACHINE, (12,)),
        (V2, (4,)),
        ({}, ()),
        ({"proc/vmstat": "garbage"}, ()),
    ],
)
def test_counters(tmp_path: Path, files: dict[str, str], counters: tuple[int, ...]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert oom_kills.count(tmp_path) == counters


class Watched:
    """An OomWatch on counters and a clock of the test's."""

    def __init__(self) -> None:
        self.now = 100.0
        self.counters: tuple[int, ...] = (3, 12)
        self.watch = OomWatch(lambda: self.counters, lambda: self.now)


def test_a_kill_is_believed_for_a_while() -> None:
    one = Watched()
    one.watch.look()
    assert one.watch.starved() is False
    one.now += 5
    one.counters = (3, 13)
    one.watch.look()  # counted at once; the process itself is gone seconds later
    one.now += 5
    assert one.watch.starved() is True
    one.now += BEFORE
    one.watch.look()
    one.now += BEFORE
    one.watch.look()
    assert one.watch.starved() is False, "who dies now does not die of that"


def test_nothing_is_known_without_counters_or_a_look_before() -> None:
    one = Watched()
    assert one.watch.starved() is None
    assert one.watch.starved() is False, "that was a look"
    one.counters = ()
    assert one.watch.starved() is None


_TAKES = f"b = bytearray(400 * {MIB})\nfor i in range(0, len(b), 4096): b[i] = 1\n"


def test_a_real_kill_is_counted() -> None:
    with small_machine(100) as machine:
        watch = OomWatch()
        watch.look()
        done = subprocess.run([sys.executable, "-c", _TAKES], preexec_fn=machine.enter, check=False)
        assert done.returncode == -9
        assert machine.kills == 1
        assert watch.starved() is True
