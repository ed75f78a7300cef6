"""How the end of a process is noticed, and that none is left a zombie."""

import os
import signal
import subprocess

import anyio
import pytest

from reconciler.host import Process, alive, identify
from reconciler.host.exits import Exit
from reconciler.host.identity import process_table
from support import FAKE, wait_for_async

from .conftest import Bench

pytestmark = pytest.mark.anyio


def zombies() -> list[int]:
    """Our dead children that nobody has reaped."""
    return [pid for pid, stat in process_table().items() if stat.parent == os.getpid() and not stat.alive]


@pytest.mark.parametrize(
    ("script", "expected", "text"),
    [
        ("exit 0", Exit(code=0), "exit code 0"),
        ("exit 137", Exit(code=137), "exit code 137"),
        ("kill -9 $$", Exit(signal=9), "killed by SIGKILL (9)"),
        ("kill -TERM $$", Exit(signal=15), "killed by SIGTERM (15)"),
        ("kill -36 $$", Exit(signal=36), "killed by signal (36)"),
    ],
)
@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "polling"])
async def test_the_exit_status_of_a_child(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, script: str, expected: Exit, text: str, *, pidfd: bool
) -> None:
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    launched = await bench.start("sh", "-c", script)
    with anyio.fail_after(5):
        assert await bench.host.wait_exit(launched.process) == expected
        assert await bench.host.wait_exit(launched.process) == expected  # also for those who ask late
    assert str(expected) == text
    assert zombies() == []


async def test_children_nobody_waits_for_are_reaped_at_once(bench: Bench) -> None:
    for _ in range(10):
        await bench.start("sh", "-c", "exit 3")
    await wait_for_async(lambda: not any(alive(x.process) for x in bench.launched), 5, "all ended")
    await wait_for_async(lambda: not zombies(), 1, "no zombie is left")


async def test_all_who_wait_are_told(bench: Bench) -> None:
    launched = await bench.serve()
    told: list[Exit] = []

    async def wait() -> None:
        told.append(await bench.host.wait_exit(launched.process))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            os.kill(launched.process.pid, signal.SIGKILL)
    assert told == [Exit(signal=9)] * 3


async def test_one_impatient_waiter_leaves_the_others_waiting(bench: Bench) -> None:
    launched = await bench.serve()
    with anyio.move_on_after(0.05):
        await bench.host.wait_exit(launched.process)
    assert alive(launched.process)
    os.kill(launched.process.pid, signal.SIGKILL)
    with anyio.fail_after(5):
        assert await bench.host.wait_exit(launched.process) == Exit(signal=9)


async def test_the_end_of_an_adopted_process_is_noticed_though_its_status_is_not_ours(bench: Bench) -> None:
    # A parent that is not us starts it and goes, as a manager that was killed does.
    script = f"{' '.join(FAKE)} --port 0 >/dev/null 2>&1 & echo $!"
    done = await anyio.run_process(["sh", "-c", script])
    process = identify(int(done.stdout))
    assert process is not None
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def end() -> None:
                os.kill(process.pid, signal.SIGKILL)

            group.start_soon(end)
            assert await bench.host.wait_exit(process) == Exit(None, None)
    assert not alive(process)


async def test_waiting_for_somebody_elses_pid_ends_at_once(bench: Bench) -> None:
    stranger = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220 - it must be a plain child of ours
    try:
        me = identify(stranger.pid)
        assert me is not None
        with anyio.fail_after(5):
            assert await bench.host.wait_exit(Process(me.pid, me.started - 1)) == Exit(None, None)
        assert alive(me)
    finally:
        stranger.kill()
        assert stranger.wait() == -9  # its status was left to its owner


async def test_a_cancelled_start_leaves_no_zombie(bench: Bench) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await bench.start("sh", "-c", "exit 0")
    await wait_for_async(lambda: not zombies(), 5, "no zombie is left")
