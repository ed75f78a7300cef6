"""One manager per state directory, and no lock that outlives its holder."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.host import StateLock, StateLocked, holder_of
from support import wait_for

HOLD = """
import sys, time
from pathlib import Path
from reconciler.host import StateLock
lock = StateLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


#: A moment as people write it.
MOMENT = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"


def test_the_second_manager_is_refused_with_the_pid_of_the_first_until_that_is_killed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(state)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        began = time.monotonic()
        with pytest.raises(StateLocked, match=f"in use by pid {holder.pid} since {MOMENT}: end it") as caught:
            StateLock(state).acquire()
        assert caught.value.pid == holder.pid
        assert time.monotonic() - began < 1
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with StateLock(state):  # at once: nothing has to be cleaned up first
            found = holder_of(state)
            assert found is not None
            assert found.pid == os.getpid()
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout:
            holder.stdout.close()


def test_a_child_that_lives_on_does_not_keep_the_lock(tmp_path: Path) -> None:
    script = HOLD.replace('print("held"', 'import subprocess; print(subprocess.Popen(["sleep", "60"]).pid')
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    sleeper = int(holder.stdout.readline())
    try:
        with pytest.raises(StateLocked):
            StateLock(tmp_path).acquire()
        holder.kill()
        holder.wait()
        with StateLock(tmp_path):
            os.kill(sleeper, 0)  # it still lives
    finally:
        os.kill(sleeper, signal.SIGKILL)
        holder.stdout.close()


def test_the_directory_and_the_files_are_private(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    with StateLock(state):
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        assert [stat.S_IMODE(file.stat().st_mode) for file in state.iterdir()] == [0o600, 0o600]


def test_a_released_lock_names_nobody_and_can_be_taken_again(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    lock.release()
    lock.acquire()
    lock.release()
    assert holder_of(tmp_path) is None
    with StateLock(tmp_path), pytest.raises(StateLocked):
        lock.acquire()


def test_a_damaged_or_stale_name_is_not_believed(tmp_path: Path) -> None:
    with StateLock(tmp_path):
        for text in ("", "{", "[]", '{"pid": 1}', '{"pid": 1, "started": -5}'):
            (tmp_path / "lock.holder").write_text(text)
            with pytest.raises(StateLocked, match="in use by another process") as caught:
                StateLock(tmp_path).acquire()
            assert caught.value.pid is None
    wait_for(lambda: holder_of(tmp_path) is None, 1, "the name is gone")
