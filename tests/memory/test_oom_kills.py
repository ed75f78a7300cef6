"""How often the kernel ended a process for want of memory, from the files of both versions of control groups."""

import subprocess
import sys
from pathlib import Path

import pytest

from linux_trees import write_files
from reconciler.core.crashes import Starved
from reconciler.loop.oom_watch import BEFORE, PACE, OomWatch
from reconciler.memory import oom_kills
from reconciler.memory.oom_kills import Counters, Kills
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


HYBRID = V1 | {
    "proc/self/cgroup": "4:memory:/app\n0::/init.scope\n",
    "proc/self/mountinfo": V1["proc/self/mountinfo"]
    + "31 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/unified/init.scope/cgroup.procs": "1\n",
}


@pytest.mark.parametrize(
    ("files", "counters"),
    [
        (V1 | MACHINE, Counters(3, 12)),
        (V2 | MACHINE, Counters(4, 12)),
        (HYBRID | MACHINE, Counters(3, 12)),
        (MACHINE, Counters(None, 12)),
        (V2, Counters(4)),
        ({}, Counters()),
        ({"proc/vmstat": "garbage"}, Counters()),
    ],
)
def test_counters(tmp_path: Path, files: dict[str, str], counters: Counters) -> None:
    assert oom_kills.count(write_files(tmp_path, files)) == counters


FULL = {"memory.limit_in_bytes": f"{60 * MIB}\n", "memory.max_usage_in_bytes": f"{59 * MIB}\n"}
CALM = FULL | {"memory.max_usage_in_bytes": f"{40 * MIB}\n"}
KILLED = {"memory.oom_control": "under_oom 0\noom_kill 2\n"}


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({"memory.max": "1000\n", "memory.events": "max 9\noom 5\noom_kill 4\n"}, Kills(4, 1000)),
        # For a limit above it, or the machine.
        ({"memory.max": "1000\n", "memory.events": "max 0\noom 0\noom_kill 1\n"}, Kills(1)),
        ({"memory.max": "1000\n", "memory.events": "max 9\noom 0\noom_kill 0\n"}, Kills(0)),
        (FULL | KILLED, Kills(2, 60 * MIB)),
        (CALM | KILLED, Kills(2)),
        (FULL | {"memory.oom_control": "oom_kill 0\n"}, Kills(0)),
        (FULL | {"memory.oom_control": "under_oom 0\n"}, None),
        ({}, None),
    ],
)
def test_what_was_done_in_a_group_with_a_limit(
    tmp_path: Path, files: dict[str, str], kills: Kills | None
) -> None:
    assert oom_kills.of_group(write_files(tmp_path, files)) == kills


class Watched:
    """An OomWatch on counters and a clock of the test's."""

    def __init__(self, group: int | None = 3, machine: int | None = 12) -> None:
        self.now = 100.0
        self.counters = Counters(group, machine)
        #: The control group of process 7, if it is not ours.
        self.place: Path | None = None
        self.watch = OomWatch(lambda: self.counters, lambda: self.now, lambda pid: self.place)

    def starved(self, *, ours: bool = True) -> Starved:
        return self.watch.starved(7, ours=ours)


def test_a_kill_is_believed_for_a_while() -> None:
    one = Watched()
    one.watch.look()
    assert one.starved() is Starved.NO
    one.now += 5
    one.counters = Counters(4, 13)
    one.watch.look()  # counted at once; the process itself is gone seconds later
    one.now += 5
    assert one.starved() is Starved.YES
    one.now += BEFORE
    one.watch.look()
    one.now += BEFORE
    one.watch.look()
    assert one.starved() is Starved.NO, "who dies now does not die of that"


def test_that_another_program_was_ended_is_not_believed_of_ours() -> None:
    one = Watched()
    one.watch.look()
    one.counters = Counters(3, 13)
    assert one.starved() is Starved.NO
    assert one.starved(ours=False) is Starved.PROBABLY, "a container is in another group"


def test_without_a_group_that_counts_it_is_probable() -> None:
    one = Watched(group=None)
    one.watch.look()
    assert one.starved() is Starved.NO
    one.counters = Counters(None, 13)
    assert one.starved() is Starved.PROBABLY


def test_nothing_is_known_without_counters_or_a_look_before() -> None:
    one = Watched()
    assert one.starved() is Starved.UNKNOWN
    assert one.starved() is Starved.NO, "that was a look"
    one.counters = Counters()
    assert one.starved() is Starved.UNKNOWN


def test_of_one_that_was_moved_the_group_is_asked_that_it_is_in(tmp_path: Path) -> None:
    one = Watched()
    one.watch.look([7])
    one.place = tmp_path
    write_files(tmp_path, {"memory.events": "oom_kill 2\n"})
    one.watch.look([7])  # at once: a look that only knows of our group is of no use for it
    one.counters = Counters(4, 13)
    assert one.starved() is Starved.NO, "somebody was ended, in our group"
    write_files(tmp_path, {"memory.events": "oom_kill 3\n"})
    one.place = None  # it is about to end
    one.now += PACE
    one.watch.look([7])
    assert one.starved() is Starved.YES
    (tmp_path / "memory.events").unlink()
    assert one.starved() is Starved.PROBABLY, "the group went with it: only the machine's count is left"


MEMBERS = {
    "proc/7/cgroup": "4:memory:/scope\n",
    "proc/8/cgroup": "4:memory:/app\n",
    "proc/9/cgroup": "4:memory:/\n",
}


@pytest.mark.parametrize(("pid", "folder"), [(7, "scope"), (8, None), (9, None), (10, None)])
def test_who_is_in_another_control_group(tmp_path: Path, pid: int, folder: str | None) -> None:
    scope = {"sys/fs/cgroup/memory/scope/memory.oom_control": "oom_kill 0\n"}
    root = write_files(tmp_path, V1 | MEMBERS | scope)
    found = oom_kills.elsewhere(pid, root)
    assert found == (root / "sys/fs/cgroup/memory" / folder if folder is not None else None)


_TAKES = f"b = bytearray(400 * {MIB})\nfor i in range(0, len(b), 4096): b[i] = 1\n"


def test_a_real_kill_is_counted() -> None:
    with small_machine(100) as machine:
        watch = OomWatch()
        watch.look()
        done = subprocess.run([sys.executable, "-c", _TAKES], preexec_fn=machine.enter, check=False)
        assert done.returncode == -9
        assert machine.kills == 1
        assert watch.starved(1, ours=False) is not Starved.NO
