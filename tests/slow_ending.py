"""A server that takes some tenths of a second to be gone once it is killed, as one that holds a GPU does.

The system closes what a process has open beginning with what it opened last: first the connection, then files that
take long, at the very end the port, for which it accepts connections all the while.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

#: Each watch of a file makes the system wait for its readers when it is closed: some 10 ms.
SLOW_FILES: Final = 20
_SCRIPT: Final = f"""
import ctypes, socket, sys, threading, time
port = socket.create_server(("127.0.0.1", 0))
libc = ctypes.CDLL(None)
for _ in range({SLOW_FILES}):
    watch = libc.inotify_init()
    if watch < 0 or libc.inotify_add_watch(watch, b"/", 2) < 0:
        sys.exit("inotify is not to be had")
print(port.getsockname()[1], flush=True)
connection, _ = port.accept()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
connection.sendall(b"x")
time.sleep(60)
"""


@dataclass(frozen=True, slots=True)
class SlowEnding:
    """The running server; `connection` is the one it has taken."""

    process: "subprocess.Popen[bytes]"
    port: int
    connection: socket.socket

    def kill(self) -> None:
        """Kill it and return when its connection broke: from then on it is ending."""
        self.process.kill()
        with suppress(ConnectionResetError):
            assert self.connection.recv(1) == b"", "it says nothing more"


@contextmanager
def slow_ending(threads: int = 0) -> Iterator[SlowEnding]:
    """Run one, with so many threads besides the first; Linux only."""
    with subprocess.Popen([sys.executable, "-c", _SCRIPT, str(threads)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None, "its output is a pipe"
            port = int(process.stdout.readline())
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                assert connection.recv(1) == b"x"
                yield SlowEnding(process, port, connection)
        finally:
            process.kill()
