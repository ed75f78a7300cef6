"""SIGTERM: what is being done is finished if that is soon, then the process ends."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Callable

#: Seconds that the call being made, and the class's `close`, have together.
GRACE_SECONDS = 2.0
_CUT = 128 + signal.SIGTERM


def on_signal(stop: Callable[[], None]) -> None:
    """Call `stop` when SIGTERM or SIGINT comes, and end the process at a second one, or when the grace is over.

    Python runs its handlers in the main thread, which may be in a long call of a library. So the handler does nothing,
    and a thread waits for the byte that the interpreter writes when a signal comes.
    """
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _nothing)
    threading.Thread(target=_watch, args=(reading, writing, stop), daemon=True).start()


def _nothing(number: int, frame: object) -> None:
    """Leave it to the thread."""


def _watch(reading: socket.socket, writing: socket.socket, stop: Callable[[], None]) -> None:
    ends = (signal.SIGTERM, signal.SIGINT)
    while reading.recv(1)[0] not in ends:
        continue
    stop()
    reading.settimeout(GRACE_SECONDS)
    try:
        while reading.recv(1)[0] not in ends:
            continue
    except socket.timeout:
        pass
    writing.close()
    os._exit(_CUT)
