"""How a launch is ended: the whole tree, wherever it hid, and nothing that is not of it."""

import os
import signal
import subprocess
import time

import anyio
import pytest

from reconciler.host import Process, StopError, alive, identify, is_free, listeners, stop
from reconciler.host.identity import read_stat
from reconciler.host.stop import send
from reconciler.host.tree import Mark
from support import FAKE, wait_for, wait_for_async

from .conftest import Bench

pytestmark = pytest.mark.anyio


async def test_a_polite_server_ends_at_once_with_sigterm(bench: Bench) -> None:
    launched = await bench.serve()
    escalations: list[str] = []
    report = await bench.host.stop(
        launched.process, launched.launch_id, grace=5, on_escalate=escalations.append
    )
    assert report.signal_used is signal.SIGTERM
    assert report.pids == (launched.process.pid,)
    assert report.seconds < 1
    assert escalations == []
    assert read_stat(launched.process.pid) is None  # gone for good: not even a zombie


async def test_a_stubborn_one_gets_sigterm_twice_then_sigkill(bench: Bench) -> None:
    launched = await bench.serve("--ignore-term", "--rss-mib", "50")
    pid = launched.process.pid
    escalations: list[str] = []
    report = await bench.host.stop(
        launched.process, launched.launch_id, grace=1, on_escalate=escalations.append
    )
    assert escalations == [
        f"pid {pid} still runs 1 s after SIGTERM: SIGTERM again",
        f"pid {pid} ignores SIGTERM: SIGKILL",
    ]
    assert report.signal_used is signal.SIGKILL
    assert 1.5 <= report.seconds < 3
    assert read_stat(pid) is None
    assert (await bench.host.wait_exit(launched.process)).signal == signal.SIGKILL


async def test_no_grace_kills_at_once(bench: Bench) -> None:
    launched = await bench.serve("--ignore-term")
    report = await bench.host.stop(launched.process, launched.launch_id, grace=0)
    assert report.signal_used is signal.SIGKILL
    assert report.seconds < 1


async def test_a_stopped_process_is_woken_to_hear_sigterm(bench: Bench) -> None:
    launched = await bench.serve()
    os.kill(launched.process.pid, signal.SIGSTOP)
    report = await bench.host.stop(launched.process, launched.launch_id, grace=5)
    assert report.signal_used is signal.SIGTERM


@pytest.mark.parametrize("kill_first", [False, True], ids=["whole", "parent-killed"])
async def test_a_worker_in_its_own_session_goes_too(bench: Bench, *, kill_first: bool) -> None:
    launched = await bench.serve("--worker", "--ignore-term")
    tree = bench.host.tree(launched.process, launched.launch_id)
    assert len(tree) == 2
    worker = next(pid for pid in tree if pid != launched.process.pid)
    assert os.getsid(worker) == worker
    if kill_first:
        os.kill(launched.process.pid, signal.SIGKILL)
        await bench.host.wait_exit(launched.process)
        assert bench.host.tree(launched.process, launched.launch_id) == ()
        assert bench.host.tree(launched.process, launched.launch_id, thorough=True) == (worker,)
    report = await bench.host.stop(launched.process, launched.launch_id, grace=0.2)
    assert worker in report.pids
    assert identify(worker) is None


WRAPPERS = {
    "background": "FAKE & exit 0",
    "daemon": "setsid FAKE >/dev/null 2>&1 & exit 0",
    "deep daemon": "(setsid sh -c 'FAKE & sleep 60' >/dev/null 2>&1 &) & exit 0",
    "child": "FAKE; exit $?",
    "exec": "exec FAKE",
    "stubborn daemon": "setsid FAKE --ignore-term >/dev/null 2>&1 & exit 0",
}


@pytest.mark.parametrize("script", WRAPPERS.values(), ids=WRAPPERS.keys())
async def test_whatever_a_wrapper_does_nothing_is_left_on_the_port(bench: Bench, script: str) -> None:
    launched = await bench.shell(script)
    if "exit 0" in script:
        with anyio.fail_after(5):
            assert (await bench.host.wait_exit(launched.process)).code == 0
    grace = 1.0
    began = time.monotonic()
    report = await bench.host.stop(launched.process, launched.launch_id, grace=grace)
    assert time.monotonic() - began < grace + 2
    assert report.pids
    assert listeners(launched.port) == ()
    assert is_free(launched.port)
    assert bench.host.tree(launched.process, launched.launch_id, thorough=True) == ()


async def test_a_launch_whose_pid_was_never_written_down_is_found_by_its_mark(bench: Bench) -> None:
    launched = await bench.serve()
    report = await bench.host.stop(None, launched.launch_id, grace=5)
    assert report.pids == (launched.process.pid,)


async def test_nothing_left_to_stop_is_no_error(bench: Bench) -> None:
    launched = await bench.start("sh", "-c", "exit 0")
    await bench.host.wait_exit(launched.process)
    report = await bench.host.stop(launched.process, launched.launch_id, grace=5)
    assert (report.signal_used, report.pids) == (None, ())


async def test_children_born_while_it_stops_are_caught(bench: Bench) -> None:
    script = "trap 'setsid sleep 60 & setsid sleep 60 & exit 0' TERM; FAKE & while :; do sleep 0.05; done"
    launched = await bench.shell(script)
    report = await bench.host.stop(launched.process, launched.launch_id, grace=2)
    assert len(report.pids) >= 4
    assert bench.host.tree(launched.process, launched.launch_id, thorough=True) == ()


async def test_other_launches_of_ours_are_not_touched(bench: Bench) -> None:
    one, other = await bench.serve(model="one"), await bench.serve(model="other")
    await bench.host.stop(one.process, one.launch_id, grace=5)
    assert alive(other.process)
    assert bench.host.trees([(one.process, "x"), (other.process, "y")]) == {
        "x": (),
        "y": (other.process.pid,),
    }


async def test_what_survives_sigkill_is_an_error_that_names_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = await bench.serve()
    with monkeypatch.context() as patched:
        # A process inside a hung driver call looks like this: signals are accepted and change nothing.
        patched.setattr(stop, "send", lambda process, number: True)
        patched.setattr(stop, "KILL_SECONDS", 0.3)
        with pytest.raises(
            StopError, match=f"pid {launched.process.pid} survived SIGKILL for 0.3 s"
        ) as caught:
            await bench.host.stop(launched.process, launched.launch_id, grace=0)
    assert caught.value.pids == (launched.process.pid,)


@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "kill"])
async def test_a_reused_pid_is_never_signalled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, pidfd: bool
) -> None:
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)  # noqa: ASYNC220 - a stranger
    try:
        me = identify(sleeper.pid)
        assert me is not None
        stale = Process(me.pid, me.started - 1)
        assert send(stale, signal.SIGKILL) is False
        assert bench.host.tree(stale, "some-launch", thorough=True) == ()
        report = await bench.host.stop(stale, "some-launch", grace=0.1)
        assert (report.signal_used, report.pids) == (None, ())
        assert sleeper.poll() is None
        assert send(me, signal.SIGKILL) is True
        assert wait_for(lambda: sleeper.poll(), 5, "the sleeper ends") == -signal.SIGKILL
    finally:
        sleeper.kill()
        sleeper.wait()


async def test_the_mark_of_another_owner_is_not_ours(bench: Bench) -> None:
    env = {**os.environ, **Mark("another-manager", "launch-0").variables()}
    other = subprocess.Popen([*FAKE, "--port", "0"], env=env, stdout=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        await wait_for_async(lambda: Mark("another-manager", "launch-0").on(other.pid), 5, "it runs")
        assert bench.host.tree(None, "launch-0", thorough=True) == ()
        assert (await bench.host.stop(None, "launch-0", grace=0)).pids == ()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_a_manager_started_under_its_own_mark_does_not_end_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = Mark(bench.host.owner, "nested")
    monkeypatch.setattr(Mark, "on", lambda self, pid: self == mark)  # every process seems to carry it
    monkeypatch.setattr(stop, "_send_all", lambda processes, number: None)
    ours = bench.host.tree(None, "nested", thorough=True)
    assert os.getpid() not in ours
    assert os.getppid() not in ours
