"""CPUs, niceness and locked memory of a model: as the manifest says, from its first instruction on, ours untouched."""

import errno
import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.engines.base import Command
from reconciler.engines.placement import reachable_cpus
from reconciler.host import StartError, placing
from reconciler.host.spawn import spawn

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of macOS has no such thing")

#: Says of itself, before and after it makes threads, and of a child of its own: CPUs and niceness of every thread.
REPORT = """
import json, os, resource, subprocess, sys, threading
def threads(pid):
    found = []
    for task in sorted(os.listdir(f"/proc/{pid}/task")):
        status = open(f"/proc/{pid}/task/{task}/status").read()
        cpus = next(l.split()[1] for l in status.splitlines() if l.startswith("Cpus_allowed_list"))
        nice = int(open(f"/proc/{pid}/task/{task}/stat").read().rsplit(")", 1)[1].split()[16])
        found.append([cpus, nice])
    return found
first = threads("self")
go = threading.Event()
for _ in range(3):
    threading.Thread(target=go.wait, daemon=True).start()
child = subprocess.Popen(["sleep", "60"])
seen = {"first": first, "later": threads("self"), "child": threads(child.pid)}
child.kill()
child.wait()
print(json.dumps(seen), flush=True)
"""


def output_of(command: Command, tmp_path: Path) -> Any:
    """Start the command as the host does, and return the JSON it prints."""
    path = tmp_path / "out"
    with path.open("w") as file:
        process = spawn(command, dict(os.environ), file.fileno())
    assert os.waitpid(process.pid, 0)[1] == 0, path.read_text()
    return json.loads(path.read_text())


def program(source: str) -> Command:
    return Command((sys.executable, "-c", source), "/")


@linux
def test_all_its_threads_and_children_from_the_first_instruction_on(tmp_path: Path) -> None:
    cpu = (reachable_cpus() or (0,))[-1]
    ours = (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))
    seen = output_of(replace(program(REPORT), cpus=(cpu,), nice=3), tmp_path)
    wanted = [str(cpu), ours[0] + 3]
    assert seen == {"first": [wanted], "later": [wanted] * 4, "child": [wanted]}
    assert (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)) == ours


@linux
def test_a_thread_that_goes_on_is_not_changed(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(lambda: (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))).result()
        pool.submit(output_of, replace(program(REPORT), cpus=(0,), nice=9), tmp_path).result()
        after = pool.submit(lambda: (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))).result()
    assert after == before


@linux
def test_without_a_wish_it_has_what_we_have(tmp_path: Path) -> None:
    seen = output_of(program(REPORT), tmp_path)
    status = Path("/proc/self/status").read_text()
    cpus = next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))
    assert seen["first"] == [[cpus, os.getpriority(os.PRIO_PROCESS, 0)]]


@linux
def test_nobody_steps_back_further_than_there_is(tmp_path: Path) -> None:
    assert output_of(replace(program(REPORT), nice=19), tmp_path)["first"][0][1] == 19


@linux
def test_cpus_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        StartError, match=r"none of the CPUs 4000, 4001 may be used here .*: correct device\.cpus"
    ):
        output_of(replace(program("0"), cpus=(4000, 4001)), tmp_path)


@linux
def test_no_further_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(StartError, match=r"can't start new thread; the limit of processes \(ulimit -u\)"):
        output_of(Command(("true",), "/", nice=5), tmp_path)
    assert reachable_cpus() == tuple(sorted(os.sched_getaffinity(0)))


@linux
def test_what_keeps_a_program_from_starting_is_said_as_ever(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="does not exist: install it or correct the path"):
        output_of(Command((str(tmp_path / "none"),), "/", nice=5), tmp_path)


@contextmanager
def soft_limit(size: int) -> Iterator[int]:
    """Let us lock only so many bytes for a while; yields the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (size, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


@linux
@pytest.mark.parametrize("locks", [True, False])
def test_only_who_locks_may_lock_as_much_as_we_can_allow(locks: bool, tmp_path: Path) -> None:
    with soft_limit(64 << 10) as hard, (tmp_path / "out").open("w") as file:
        process = spawn(Command(("sleep", "60"), "/", locks=locks), dict(os.environ), file.fileno())
        try:
            allowed = resource.prlimit(process.pid, resource.RLIMIT_MEMLOCK)
        finally:
            os.kill(process.pid, 9)
            os.waitpid(process.pid, 0)
        assert allowed == (hard if locks else 64 << 10, hard)
        assert resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == 64 << 10


class Session:
    """Stands for /proc/PID/autogroup: refuses some times, then takes what is written."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.written: list[str] = []

    def write_text(self, text: str) -> None:
        if self.errors:
            raise OSError(self.errors.pop(0), "no")
        self.written.append(text)


@pytest.mark.parametrize(
    ("errors", "written"),
    [
        ((), ["7\n"]),
        ((errno.EAGAIN, errno.EAGAIN), ["7\n"]),
        ((errno.ENOENT,), []),
        ((errno.EPERM,), []),
        ((errno.EAGAIN,) * 9, []),
    ],
)
def test_the_session_steps_back_too(
    errors: tuple[int, ...], written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_PAUSE", 0.0)
    session = Session(*errors)
    placing._step_back(session, 7)  # type: ignore[arg-type]
    assert session.written == written


@linux
@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel groups nothing by session")
def test_the_kernel_knows_of_the_session(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        process = spawn(Command(("sleep", "60"), "/", nice=5), dict(os.environ), file.fileno())
    try:
        assert Path(f"/proc/{process.pid}/autogroup").read_text().split()[-1] == "5"
    finally:
        os.kill(process.pid, 9)
        os.waitpid(process.pid, 0)


def test_on_a_mac_it_steps_back_once_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "getpriority", lambda _which, _who: 4)
    monkeypatch.setattr(os, "setpriority", lambda *given: asked.append(given))
    command = Command(("x",), "/", nice=7, cpus=(1,))
    assert placing.within(command, lambda: "started") == "started"
    assert asked == []
    placing.after_start(4711, command)
    assert asked == [(os.PRIO_PROCESS, 4711, 11)]
