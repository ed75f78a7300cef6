"""Logs are kept small while they are written, also by a program that does nothing else."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.host import Logs
from reconciler.host.log_watch import AFTER_TROUBLE, CALM, SHORTEST, LogWatch, pace
from reconciler.host.logs import HEAD_BYTES
from support import wait_for

CAP = 8 << 20
MIB = 1 << 20
#: Writes 100 MB within about a second, then stays.
FLOOD = """
import os, sys, time
piece, began = (b"word " * 39 + b"word\\n") * 320, time.monotonic()
for at in range(1, 1600):
    os.write(1, piece)
    time.sleep(max(0.0, at * len(piece) / 1e8 - (time.monotonic() - began)))
os.write(1, b"last words\\n")
sys.stdin.read()
"""


@contextmanager
def watching(logs: Logs) -> Iterator[LogWatch]:
    watch = LogWatch(logs)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        yield watch
    finally:
        watch.close()
        thread.join()


def on_disk(directory: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory))


def test_a_flood_is_kept_near_its_cap_while_it_goes_on(tmp_path: Path) -> None:
    logs = Logs(tmp_path, CAP)
    output = logs.open("m")
    logs.begin(output, "l")
    with watching(logs) as watch:
        watch.watch(["m"])
        flood = subprocess.Popen([sys.executable, "-c", FLOOD], stdin=subprocess.PIPE, stdout=output)
        most = 0

        def over() -> bool:
            nonlocal most
            most = max(most, logs.size("m"))
            return logs.tail("m", 1) == ["last words"]

        try:
            wait_for(over, 30, "the end of the flood")
        finally:
            flood.communicate()
            os.close(output)
    # On a quiet machine 8 MiB; a test has to stand one that others use.
    assert most < 50 * MIB, "nobody looked while it was written"
    assert on_disk(tmp_path) <= CAP
    assert logs.files("m")[0].read_bytes().startswith(b"--- start ")


def test_what_a_model_wrote_before_it_ended_is_rotated_as_soon_as_it_is_not_watched(tmp_path: Path) -> None:
    logs = Logs(tmp_path, 4 * HEAD_BYTES)
    with watching(logs) as watch:
        watch.watch(["m"])
        logs.path("m").write_bytes(b"y" * 4 * HEAD_BYTES)
        watch.watch([])
        wait_for(lambda: logs.size("m") == 0, 5, "a rotated log")


def test_the_more_is_in_a_log_the_sooner_it_is_looked_at() -> None:
    for flooded in (False, True):
        pauses = [pace(size, CAP, flooded=flooded) for size in range(0, 2 * CAP, MIB)]
        assert pauses == sorted(pauses, reverse=True)
        assert pauses[-1] == SHORTEST
    assert pace(0, CAP, flooded=True) == pace(0, CAP, flooded=False) / 2


def test_one_that_cannot_be_rotated_is_not_tried_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(tmp_path, CAP)
    watch = LogWatch(logs)
    assert watch._look() == CALM
    logs.path("m").write_bytes(b"x" * CAP)
    watch.watch(["m"])

    def full(model: str) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logs, "trim", full)
    assert watch._look() == AFTER_TROUBLE
