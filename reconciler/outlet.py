"""Where log lines leave the program: never a wait and never an error for the one who logs."""

import os
import select
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

#: Lines that may wait for a slow reader.
LINE_LIMIT: Final = 10_000


class Outlet:
    """A file-like object that hands each text written to it (whole lines) to one thread, which writes to a descriptor.

    While too many wait, the newest are dropped; once half of them are written, `dropped_note(count)`, a line too, tells
    of it. What the target refuses (nobody reads any more, the disk is full) is lost, and the next line is tried again.
    Python's own stream is passed by: a thread that waits for a reader would still hold its lock at the end.
    """

    def __init__(self, descriptor: int, dropped_note: Callable[[int], str], limit: int = LINE_LIMIT) -> None:
        self._descriptor = descriptor
        self._note = dropped_note
        self._limit = limit
        self._dropped = 0
        # Both may be entered anew by a finalizer that logs while its own thread is in here.
        self._lock = threading.RLock()
        self._lines: SimpleQueue[tuple[bytes, int] | threading.Event | None] = SimpleQueue()
        threading.Thread(target=self._write_out, name="log", daemon=True).start()

    def write(self, text: str) -> int:
        """Take whole lines; they are written in the order in which they came."""
        with self._lock:
            if self._lines.qsize() >= (self._limit // 2 if self._dropped else self._limit):
                self._dropped += 1
            else:
                self._tell()
                self._put(text, 1)
        return len(text)

    def flush(self) -> None:
        """Do nothing: loggers call this after every line, and nobody may wait here. See `drain`."""

    def drain(self, timeout: float) -> bool:
        """Wait until what was taken so far is written, at most `timeout` seconds; tell whether it is."""
        done = threading.Event()
        with self._lock:
            self._tell()
            self._lines.put(done)
        return done.wait(timeout)

    def close(self) -> None:
        """End the thread once everything is written. Nothing may be written afterwards."""
        self._lines.put(None)

    def _tell(self) -> None:
        """Queue the note about dropped lines, if there are any; the lock is held."""
        if self._dropped:
            self._put(self._note(self._dropped), self._dropped)
            self._dropped = 0

    def _put(self, text: str, count: int) -> None:
        self._lines.put((text.encode(errors="backslashreplace"), count))

    def _write_out(self) -> None:
        while (item := self._lines.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            text, count = item
            try:
                _write_all(self._descriptor, text)
                lost = 0
            except OSError:  # there is no place to say it; a later line that gets through will tell
                lost = count
            with self._lock:
                self._dropped += lost
                if not lost and self._lines.empty():
                    self._tell()


def _write_all(descriptor: int, data: bytes) -> None:
    """Write everything, also where another process has made the pipe non-blocking."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            ready = select.poll()
            ready.register(descriptor, select.POLLOUT)
            ready.poll()
