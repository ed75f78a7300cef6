"""SIGTERM: what is being done is finished if that is soon, then the process ends."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Callable

#: Seconds that the call being made, and the class's `close`, have together.
GRACE_SECONDS = 2.0
_CUT = 128 + signal.SIGTERM
_ENDS = (signal.SIGTERM, signal.SIGINT)
_HANDLED = b"\0"


def on_signal(stop: Callable[[], None]) -> None:
    """Call `stop` when SIGTERM or SIGINT comes, and end the process at a second one, or when the grace is over.

    Python runs its handlers in the main thread, which may be in a long call of a library. So a thread waits for the
    byte that the interpreter writes when a signal comes: its number. An event loop of the user's may take that away
    again; so the handler, whenever it runs, writes a 0.
    """
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)

    def handle(number: int, frame: object) -> None:
        with suppress(OSError):
            writing.send(_HANDLED)

    for number in _ENDS:
        signal.signal(number, handle)
    threading.Thread(target=_watch, args=(reading, stop), daemon=True).start()


def _watch(reading: socket.socket, stop: Callable[[], None]) -> None:
    while (byte := reading.recv(1)) != _HANDLED and byte[0] not in _ENDS:
        continue
    stop()
    until = time.monotonic() + GRACE_SECONDS
    with suppress(socket.timeout):
        while (left := until - time.monotonic()) > 0:
            reading.settimeout(left)
            if reading.recv(1)[0] in _ENDS:
                break
    os._exit(_CUT)
