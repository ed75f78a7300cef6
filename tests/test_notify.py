"""What the service manager is told, over real datagram sockets."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from board_samples import applied, blind_plan, refused_snapshot, snapshot
from reconciler.board import STOP_SECONDS, Board
from reconciler.heartbeat import MARGIN, MODEL_MARGIN, Heartbeat, line, stop_seconds
from reconciler.manifest.applied import StateSettings
from reconciler.notify import Notifier

KEPT = {"HOME": "/home/ann"}


@pytest.fixture
def manager_socket(tmp_path: Path) -> Iterator[socket.socket]:
    """What a service manager listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(5)
        yield listener


def address(listener: socket.socket) -> str:
    name = listener.getsockname()
    return f"@{name[1:].decode()}" if isinstance(name, bytes) else str(name)


def heard(listener: socket.socket) -> list[str]:
    return listener.recv(4096).decode().split("\n")


def test_messages_arrive_and_the_variables_are_gone(manager_socket: socket.socket) -> None:
    environ = {
        "NOTIFY_SOCKET": address(manager_socket),
        "WATCHDOG_USEC": "1500000",
        "WATCHDOG_PID": str(os.getpid()),
        **KEPT,
    }
    notifier = Notifier.take(environ)
    assert environ == KEPT
    assert (notifier.wanted, notifier.watchdog) == (True, 1.5)
    assert notifier.send("READY=1", "STATUS=two\nlines, ü")
    assert heard(manager_socket) == ["READY=1", "STATUS=two lines, ü"]
    notifier.close()
    assert not notifier.send("READY=1")


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0reconcile-test-{os.getpid()}")
        listener.settimeout(5)
        notifier = Notifier.take({"NOTIFY_SOCKET": address(listener)})
        assert notifier.send("STOPPING=1")
        assert heard(listener) == ["STOPPING=1"]
        notifier.close()


@pytest.mark.parametrize(
    "environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}, {"NOTIFY_SOCKET": "@"}]
)
def test_nobody_to_tell(environ: dict[str, str]) -> None:
    notifier = Notifier.take(environ)
    assert environ == {}
    assert not notifier.wanted
    assert not notifier.send("READY=1")


@pytest.mark.parametrize(
    ("usec", "pid", "watchdog"),
    [("30000000", "", 30.0), ("30000000", "1", None), ("0", "", None), ("soon", "", None), ("", "", None)],
)
def test_whom_the_watchdog_watches(usec: str, pid: str, watchdog: float | None) -> None:
    notifier = Notifier.take({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid})
    assert notifier.watchdog == watchdog
    notifier.close()


def test_a_service_manager_that_does_not_read_holds_nobody_up(manager_socket: socket.socket) -> None:
    notifier = Notifier(address(manager_socket))
    sent = 0
    while notifier.send("WATCHDOG=1"):
        sent += 1
        assert sent < 100_000
    assert sent > 0
    assert heard(manager_socket) == ["WATCHDOG=1"]
    assert notifier.send("WATCHDOG=1")
    notifier.close()


def test_a_service_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    notifier = Notifier(str(tmp_path / "gone"))
    assert not notifier.send("READY=1")
    notifier.close()


@pytest.mark.anyio
async def test_the_watchdog_hears_of_turns_only(manager_socket: socket.socket) -> None:
    board, notifier = Board(), Notifier(address(manager_socket), watchdog=0.2)
    heartbeat = Heartbeat(notifier, board)

    async def next_message() -> list[str]:
        return await anyio.to_thread.run_sync(heard, manager_socket)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeat.run)
        board.publish(snapshot())
        await anyio.lowlevel.checkpoint()  # it serves nobody yet: READY would be a lie
        manager_socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager_socket.recv(1)
        manager_socket.settimeout(5)
        heartbeat.serving()
        first = await next_message()
        assert first[:2] == ["READY=1", "WATCHDOG=1"]
        assert first[2].startswith("STATUS=")
        manager_socket.settimeout(0.6)  # three times the watchdog: a loop that hangs is not spoken for
        with pytest.raises(TimeoutError):
            await next_message()
        manager_socket.settimeout(5)
        board.publish(snapshot())
        assert (await next_message())[0] == "WATCHDOG=1"
        heartbeat.stopping()
        board.publish(snapshot())
        message = await next_message()
        assert message[:2] == ["STOPPING=1", "STATUS=stopping: requests end, then the models"]
        loaded = {i.model for i in snapshot().world.observation.instances}
        seconds = stop_seconds(snapshot().applied, loaded)
        assert message[2] == f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}"
    notifier.close()


def test_the_line_of_status() -> None:
    assert line(snapshot()) == "3 of 5 models ready, 6.6 GiB of 28.8 GiB; loading coder"
    assert line(refused_snapshot()).endswith(
        "; the newest manifest has errors: the one before it is in force"
    )
    blind = replace(snapshot(), plan=blind_plan())
    assert line(blind) == "3 of 5 models ready; loading coder"


def test_the_end_may_take_as_long_as_its_parts() -> None:
    desk = applied()
    chat = replace(desk.manifest.models[0], name="chat", drain_timeout=12.0, stop_grace=3.0)
    patient = replace(chat, name="patient", drain_timeout=float("inf"))
    desk = replace(
        desk,
        manifest=replace(desk.manifest, models=(chat, patient)),
        states={"chat": StateSettings(timeout=7)},
    )
    kill, each = 10.0 + 0.5, MODEL_MARGIN
    assert stop_seconds(desk, {"chat"}) == MARGIN + 12 + 7 + 3 + kill + each
    assert stop_seconds(desk, set()) == MARGIN
    assert stop_seconds(desk) == stop_seconds(desk, {"chat"}) + STOP_SECONDS + 3 + kill + each
