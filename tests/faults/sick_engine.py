"""tests/fake_engine.py that falls ill when it is told to: at SIGUSR1 it does what the file of --orders says.

Each line of the file is one order:

- `hang` (nothing is answered any more), `hang-posts`, `fail-posts` (500), `garbage` (no HTTP), `drip` (one byte at a
  time), `close` (its port): how it serves from now on;
- `fork` leaves a child in a session of its own, `inherit` one that keeps the listening socket, `daemon` goes on as a
  child while the process that was started ends;
- `grow MIB`, `flood MIB`, `exit CODE`.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fake_engine

#: How it serves: the last order of that kind; empty = well.
ILL = [""]
#: Bytes of each answer that come one at a time, and seconds between them.
DRIPS, DRIP_SECONDS = 6, 0.25
#: Seconds between two looks for the file of --listen-until.
LOOK_SECONDS = 0.01
GARBAGE = b"\x00\xffthis is not HTTP\r\n\r\n"


class Drip:
    """A socket that sends the first bytes of all that it is given one at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def sendall(self, data: bytes) -> None:
        for place in range(min(DRIPS, len(data))):
            self._sock.sendall(data[place : place + 1])
            time.sleep(DRIP_SECONDS)
        self._sock.sendall(data[DRIPS:])


class Sick(fake_engine.Connection):
    """A connection to a server that may be ill."""

    def read_head(self) -> bool:
        if not super().read_head():
            return False
        if ILL[0] == "hang":
            fake_engine.watch_while(self.sock, fake_engine.LIFETIME_SECONDS)
        if ILL[0] == "garbage":
            self.sock.sendall(GARBAGE)
            return False
        return True

    def post(self) -> None:
        if ILL[0] == "hang-posts":
            fake_engine.watch_while(self.sock, fake_engine.LIFETIME_SECONDS)
        if ILL[0] == "fail-posts":
            fake_engine.ARGS.status = 500
        if ILL[0] == "drip":
            self.sock = Drip(self.sock)  # type: ignore[assignment]  # all that is used of a socket
        super().post()

    def chunk(self, data: bytes) -> None:
        if ILL[0] == "garbage":
            self.sock.sendall(GARBAGE)
            raise OSError("garbage instead of a chunk")
        super().chunk(data)


def fall_ill(*_: object) -> None:
    """Do what is ordered; runs in the main thread, which otherwise takes connections."""
    for line in Path(option("--orders")).read_text().splitlines():
        word, *rest = line.split()
        fake_engine.say(f"ordered: {line}")
        if word in ("fork", "inherit"):
            leave_child(keep_socket=word == "inherit")
        elif word == "daemon":
            daemonise()
        elif word == "close":
            fake_engine.LISTENING[0].shutdown(socket.SHUT_RDWR)
        elif word == "grow":
            fake_engine.touch(int(rest[0]))
        elif word == "flood":
            fake_engine.burst(int(rest[0]))
        elif word == "exit":
            fake_engine.say("these are its last words")
            os._exit(int(rest[0]))
        else:
            ILL[0] = word


def leave_child(*, keep_socket: bool) -> None:
    """Fork a child that does nothing, outlives us, and does not hear of SIGTERM to our group."""
    if os.fork() == 0:
        os.setsid()
        signal.alarm(fake_engine.LIFETIME_SECONDS)
        kept = fake_engine.LISTENING[0].fileno() if keep_socket and fake_engine.LISTENING else 2
        os.closerange(3, kept)
        os.closerange(kept + 1, 256)
        while True:
            signal.pause()


def daemonise() -> None:
    """Go on in a child; whoever started us sees us end as if all were well."""
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    signal.alarm(fake_engine.LIFETIME_SECONDS)


def option(name: str) -> str:
    """Return the value of an option of our own."""
    return sys.argv[sys.argv.index(name) + 1]


def listen() -> socket.socket:
    """Listen, but no sooner than the file of --listen-until is there."""
    if "--listen-until" in sys.argv:
        fake_engine.say("does not listen yet")
        while not os.path.exists(option("--listen-until")):
            time.sleep(LOOK_SECONDS)
    return well()


well = fake_engine.listen

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, fall_ill)
    changed: Any = fake_engine
    changed.Connection, changed.listen = Sick, listen
    fake_engine.main()
