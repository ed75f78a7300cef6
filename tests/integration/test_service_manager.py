"""What the whole program tells the service manager that started it, over a real socket."""

import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from manager import SOON, Manager, Streaming, environment
from support import wait_for

pytestmark = pytest.mark.program

WATCHDOG = 2.0


class Ear:
    """A service manager's end of the conversation; an abstract socket, like that of a container."""

    def __init__(self, name: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{name}")
        self.socket.settimeout(SOON)
        self.fields: list[str] = []

    def next(self) -> list[str]:
        """Return the fields of the next message."""
        message = self.socket.recv(4096).decode().split("\n")
        self.fields += message
        return message

    def until(self, start: str) -> str:
        """Return the next field that begins so."""
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline:
            for field in self.next():
                if field.startswith(start):
                    return field
        raise AssertionError(f"{start} was not said; last: {self.fields[-5:]}")

    def silent(self, seconds: float) -> bool:
        """Return whether nothing is said for so long."""
        self.socket.settimeout(seconds)
        try:
            self.next()
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(SOON)
        return False

    def drain(self) -> None:
        """Read what has been said so far."""
        while not self.silent(0.001):
            pass


@pytest.fixture
def ear() -> Iterator[Ear]:
    made = Ear(f"reconcile-test-{os.getpid()}-{time.monotonic_ns()}")
    yield made
    made.socket.close()


def told(manager: Manager, ear: Ear) -> Manager:
    """Return the manager, to be started as a service manager would."""
    name = ear.socket.getsockname()[1:].decode()
    manager.env = {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": str(int(WATCHDOG * 1e6))}
    return manager


def test_ready_status_watchdog_and_the_end(manager: Manager, ear: Ear) -> None:
    manager.write({"chat": manager.fake("chat", "--stream", "20", "--delay", "0.05", residency="warm")})
    told(manager, ear).start()
    first = ear.next()
    assert first[0] == "READY=1"
    assert manager.client.get("/v1/models").status_code == 200, "it serves when it says so"
    wait_for(
        lambda: ear.until("STATUS=") == "STATUS=1 of 1 model ready, 50 MiB of 1000 MiB",
        SOON,
        "the model's status",
    )
    [pid] = manager.wait_ready("chat")
    assert not [v for v in environment(pid) if v.startswith(("NOTIFY_SOCKET=", "WATCHDOG_"))]
    ear.until("WATCHDOG=1")
    stream = Streaming(manager.url, "chat")
    manager.process.send_signal(signal.SIGTERM) if manager.process else None
    ear.until("STOPPING=1")
    assert [f for f in ear.fields if f.startswith("EXTEND_TIMEOUT_USEC=")] == ["EXTEND_TIMEOUT_USEC=85500000"]
    assert stream.whole() == list(range(20))
    assert manager.process is not None
    assert manager.process.wait(SOON) == 0
    assert ear.fields.count("READY=1") == 1
    ear.drain()
    after = ear.fields[ear.fields.index("STOPPING=1") :]
    assert "WATCHDOG=1" not in after


def test_a_stop_over_http_is_told_too(manager: Manager, ear: Ear) -> None:
    manager.write({"chat": manager.fake("chat")})
    told(manager, ear).start()
    ear.until("READY=1")
    assert manager.cli("stop").returncode == 0
    ear.until("STOPPING=1")


def test_a_program_that_hangs_is_silent_and_one_that_goes_on_speaks_again(manager: Manager, ear: Ear) -> None:
    manager.write({"chat": manager.fake("chat")})
    told(manager, ear).start()
    ear.until("WATCHDOG=1")
    os.kill(manager.pid, signal.SIGSTOP)
    try:
        ear.drain()
        assert ear.silent(WATCHDOG)
    finally:
        os.kill(manager.pid, signal.SIGCONT)
    ear.until("WATCHDOG=1")
