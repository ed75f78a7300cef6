"""How a manager ends: asked once or twice, from a terminal or a closed one, with the models or without them."""

import os
import pty
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from manager import SOON, Asking, Manager, Streaming, running
from reconciler.host import StateLock
from support import wait_for

pytestmark = pytest.mark.program

FIRST_RUN = Path(__file__).parents[2] / "tools" / "first_run.py"
#: How the models are told to stay.
SAID = ["manifest", "option", "verb"]


@pytest.mark.parametrize("said", SAID)
def test_models_that_are_left_serve_on_and_are_taken_over(manager: Manager, said: str) -> None:
    stream = ("--stream", "30", "--delay", "0.05")
    machine = {"on_exit": "leave"} if said == "manifest" else {}
    manager.write({"alpha": manager.fake("alpha", *stream, residency="warm")}, machine=machine)
    option = ("--on-exit", "leave") if said == "option" else ()
    manager.start(*option)
    assert manager.process is not None
    [pid] = manager.wait_ready("alpha")
    port = manager.port_of("alpha")
    streaming = Streaming(manager.url, "alpha")
    if said == "verb":
        told = manager.cli("stop", "--leave-models")
        assert (told.returncode, "the models run on" in told.stdout) == (0, True), told.stderr
        assert manager.process.wait(SOON) == 0
    else:
        assert manager.stop() == 0
    assert streaming.whole() == list(range(30)), "what was in flight did not come to its end"
    assert running(pid)
    assert httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    assert manager.events("left", "alpha") == [("Left", f"pid {pid} runs on for the next reconcile")]
    assert manager.events("evicted") == []
    manager.start()
    assert manager.wait_ready("alpha") == [pid]
    assert len(manager.log("load")) == 1, "it was loaded anew"
    assert manager.cli("stop").returncode == 0
    assert manager.process is not None
    manager.process.wait(SOON)
    if said == "manifest":
        assert running(pid)
        ended = manager.cli("stop")
        assert (ended.returncode, ended.stdout) == (0, "ended: alpha\n")
    assert manager.ours() == []


def test_nothing_half_done_is_left(manager: Manager) -> None:
    """A load is given up, what is not ready is ended; a second signal cuts requests, and the models stay."""
    manager.write(
        {
            "streams": manager.fake("streams", "--stream", "900", "--delay", "0.05"),
            "slow": manager.fake("slow", "--load", "60"),
        },
        machine={"on_exit": "leave"},
    )
    manager.start()
    stream = Streaming(manager.url, "streams")
    [pid] = manager.wait_ready("streams")
    asking = Asking(manager, "slow")
    wait_for(lambda: manager.processes("slow"), SOON, "a load that has begun")
    assert manager.process is not None
    manager.process.send_signal(signal.SIGTERM)
    manager.wait_log("requests in flight get to end", model="streams")
    assert asking.status() == 503
    assert not manager.processes("slow")
    manager.process.send_signal(signal.SIGTERM)
    assert manager.process.wait(5) == 0
    stream.join(SOON)
    assert not stream.done
    assert manager.ours() == [pid]


def test_a_second_signal_ends_deaf_models_side_by_side_and_says_so(manager: Manager) -> None:
    """Three that ignore SIGTERM and may take a minute each are gone within seconds; a third signal changes nothing."""
    names = ("one", "three", "two")
    manager.write(
        {n: manager.fake(n, "--ignore-term", residency="warm", timeouts={"stop": "60s"}) for n in names}
    )
    manager.start()
    pids = manager.wait_ready(*names)
    assert manager.process is not None
    manager.process.send_signal(signal.SIGINT)
    manager.wait_log("evict", model="one", reason="Shutdown")
    assert all(map(running, pids))
    began = time.monotonic()
    manager.process.send_signal(signal.SIGINT)
    manager.wait_log("forced: requests in flight are cut, what is being stopped is killed soon")
    manager.process.send_signal(signal.SIGINT)
    manager.process.send_signal(signal.SIGTERM)
    assert manager.process.wait(SOON) == 0
    # The one that was being stopped, then the others side by side: two seconds and a half each.
    assert time.monotonic() - began < 9
    assert not any(map(running, pids))
    killed = {line["model"] for line in manager.log("stopping is slow") if "SIGKILL" in line["now"]}
    assert killed == set(names)
    assert "Traceback" not in manager.output.read_text()


class Terminal:
    """A terminal of its own, with a program in its foreground, as a person has it."""

    def __init__(self, argv: list[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(argv[0], argv)
        self.text = ""
        #: Exit status of the program (minus the number of a signal), once it has ended.
        self.status: int | None = None

    def read(self) -> str:
        """Return all that was shown so far."""
        os.set_blocking(self.fd, False)
        try:
            while part := os.read(self.fd, 65536):
                self.text += part.decode(errors="replace")
        except OSError:
            pass
        return self.text

    def ctrl_c(self) -> None:
        """Press Ctrl-C: the kernel signals every process of the foreground group."""
        os.write(self.fd, b"\x03")

    def close(self) -> None:
        """Close the window: the kernel hangs up on the program."""
        os.close(self.fd)
        self.fd = -1

    def ended(self) -> bool:
        """Return whether the program has ended."""
        if self.fd >= 0:
            self.read()  # else it would wait for its reader
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None


@contextmanager
def in_terminal(argv: list[str]) -> Iterator[Terminal]:
    """Yield a terminal in which this runs; it is ended and closed afterwards."""
    terminal = Terminal(argv)
    try:
        yield terminal
    finally:
        if not terminal.ended():
            os.kill(terminal.pid, signal.SIGKILL)
            os.waitpid(terminal.pid, 0)
        if terminal.fd >= 0:
            terminal.close()


@pytest.mark.parametrize("how", ["reconcile", "make run"])
def test_ctrl_c_in_a_terminal_reaches_the_manager_alone(manager: Manager, how: str) -> None:
    """The model is in no group of the terminal: its stream goes on to the end while the manager drains."""
    manager.write({"chat": manager.fake("chat", "--stream", "60", "--delay", "0.05", residency="warm")})
    listen = ("--listen", f"127.0.0.1:{manager.gateway_port}")
    command = manager.command(*listen)
    if how == "make run":
        command = [sys.executable, str(FIRST_RUN), *command[1:]]
    with in_terminal(command) as terminal:
        wait_for(lambda: terminal.read() and up(manager), SOON, "a manager that answers")
        [pid] = manager.wait_ready("chat")
        assert os.getsid(pid) == pid, "it is in the session of the terminal"
        stream = Streaming(manager.url, "chat")
        terminal.ctrl_c()
        assert stream.whole() == list(range(60))
        wait_for(terminal.ended, SOON, "the end of the manager")
        assert terminal.status == 0
        assert not running(pid)
        assert "Traceback" not in terminal.text


@pytest.fixture
def heard() -> Iterator[None]:
    """Hang-ups are heard by what is started, also where the tests themselves run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard")
def test_a_terminal_that_is_closed_ends_the_manager_in_order(manager: Manager) -> None:
    manager.write({"chat": manager.fake("chat", "--stream", "40", "--delay", "0.05", residency="warm")})
    with in_terminal(manager.command("--listen", f"127.0.0.1:{manager.gateway_port}")) as terminal:
        wait_for(lambda: terminal.read() and up(manager), SOON, "a manager that answers")
        [pid] = manager.wait_ready("chat")
        stream = Streaming(manager.url, "chat")
        terminal.close()
        assert stream.whole() == list(range(40))
        wait_for(terminal.ended, SOON, "the end of the manager")
        assert terminal.status == 0
        assert not running(pid)


@pytest.mark.usefixtures("heard")
def test_hanging_up_twice_forces_nothing_and_a_manager_under_nohup_does_not_hear_it(manager: Manager) -> None:
    """The kernel and the shell both hang up on what runs in a terminal that is closed."""
    manager.write({"chat": manager.fake("chat", "--stream", "40", "--delay", "0.05", residency="warm")})
    manager.start()
    manager.wait_ready("chat")
    stream = Streaming(manager.url, "chat")
    for times in (1, 2):
        os.kill(manager.pid, signal.SIGHUP)
        wait_for(lambda: len(manager.log("stopping", signal="SIGHUP")) == times, SOON, "that it hears it")  # noqa: B023
    assert stream.whole() == list(range(40))
    assert manager.process is not None
    assert manager.process.wait(SOON) == 0
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        manager.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    [pid] = manager.wait_ready("chat")
    os.kill(manager.pid, signal.SIGHUP)
    assert manager.ask("chat", stream=False).status_code == 200
    assert manager.wait_ready("chat") == [pid]
    assert len(manager.log("stopping", signal="SIGHUP")) == 2
    assert manager.stop() == 0


def test_a_manager_is_back_within_seconds_with_ten_models(manager: Manager) -> None:
    """Their probes are made side by side: ten models take hardly longer than one."""
    names = [f"m{number}" for number in range(10)]
    manager.write({n: manager.fake(n, residency="warm") for n in names}, machine={"on_exit": "leave"})
    manager.start()
    pids = manager.wait_ready(*names, timeout=60)
    assert manager.stop() == 0
    lines = len(manager.log())
    manager.start()
    assert manager.wait_ready(*names) == pids
    log = manager.log()[lines:]
    began = next(line for line in log if line["event"] == "serving")
    ended = [line for line in log if line["event"] == "adopted"]
    seconds = moment(ended[-1]) - moment(began)
    print(f"ten models adopted {seconds:.2f} s after the gateway was there")
    assert sorted(line["model"] for line in ended) == names
    assert seconds < 5, "2 s on a machine that does nothing else"


def moment(line: dict[str, str]) -> float:
    """Return when a line was logged, in seconds."""
    return datetime.fromisoformat(line["timestamp"]).timestamp()


OURS = ("ledger", "lock", "manager.log")


def test_models_hold_nothing_of_a_manager_that_was_killed(manager: Manager) -> None:
    """Neither its lock nor its listening socket: lock and port are free the moment it is gone."""
    manager.write({"chat": manager.fake("chat", "--worker", residency="warm")})
    manager.start()
    pids = manager.wait_ready("chat") and manager.processes("chat")
    listens = inodes(manager.pid) & listening(manager.gateway_port)
    assert listens, "the test does not see the socket of the gateway"
    manager.kill()
    assert len(pids) == 2
    for pid in pids:
        assert running(pid)
        assert not inodes(pid) & listens
        files = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert [f for f in files if Path(f).name.startswith(OURS)] == []
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that were closed linger
        again.bind(("127.0.0.1", manager.gateway_port))
        again.listen()
    with StateLock(manager.state_dir):
        pass


def test_one_that_was_started_a_moment_ago_can_be_stopped(manager: Manager) -> None:
    """It has the lock before it listens."""
    manager.write({"chat": manager.fake("chat", residency="warm")})
    manager.begin_to_serve()
    wait_for((manager.state_dir / "lock.holder").exists, SOON, "a manager that has begun")
    said = manager.cli("stop")
    assert (said.returncode, said.stdout) == (0, "stopped\n"), said.stderr
    assert manager.process is not None
    assert manager.process.wait(SOON) == 0


def inodes(pid: int) -> set[int]:
    """Return the sockets a process has open."""
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return {int(link[8:-1]) for link in links if link.startswith("socket:[")}


def listening(port: int) -> set[int]:
    """Return the sockets that listen on a port, from the kernel's table."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[9]) for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")}


def up(manager: Manager) -> bool:
    """Return whether the loop of a manager that runs in a terminal turns."""
    try:
        return httpx.get(f"{manager.url}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
