"""What is done to a manager or a model at a named point, from outside."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from faults.oracle import lock_is_free
from faults.rig import Rig
from manager import SOON, process_state
from support import wait_for


def kill_manager(rig: Rig) -> None:
    """End the manager as a crash would; its lock must go with it."""
    rig.kill()
    assert lock_is_free(rig), "the lock outlived its holder"


def die_and_start(rig: Rig) -> None:
    """Have the manager crash, and start it again at once."""
    kill_manager(rig)
    rig.start()


def starts_after_death(rig: Rig) -> None:
    """Wait until an armed wound has ended the manager, and start it again."""
    rig.wait_dead()
    assert lock_is_free(rig), "the lock outlived its holder"
    rig.start()


def pause(pids: Iterable[int]) -> None:
    """Stop processes, as a terminal or a suspend does; return when they have stopped, fail if one is gone."""
    for pid in pids:
        wait_for(lambda pid=pid: _stops(pid), SOON, f"{pid} to stop")  # type: ignore[misc]


def _stops(pid: int) -> bool:
    """Signal a process and say whether it stands: who is being ended is told to go on, which takes the signal back."""
    os.kill(pid, signal.SIGSTOP)
    return process_state(pid) == "T"


def go_on(pids: Iterable[int]) -> None:
    """Let stopped processes run again."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen(rig: Rig, seconds: float, *, models: bool = False) -> Iterator[None]:
    """Have the manager, and with `models` all of its processes, stand still for so long and for what is done inside."""
    pause([rig.pid])
    others = rig.ours() if models else []  # looked up now: a manager that stands still ends none of them
    pause(others)
    began = time.monotonic()
    try:
        yield
        wait_for(lambda: time.monotonic() - began >= seconds, seconds + SOON, "the time to pass")
    finally:
        go_on([rig.pid, *others])
