"""What a manager must leave alone: other people's servers, other managers, and a state directory that is taken."""

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from manager import SOON, Manager, Streaming, running
from support import FAKE, free_port, healthy, wait_for


@pytest.fixture
def by_hand() -> Iterator[tuple[int, int]]:
    """A fake engine that a person started: its pid and port."""
    port = free_port()
    command = [*FAKE, "--port", str(port), "--stream", "300", "--delay", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: healthy(port), SOON, "a fake engine started by hand")
        yield process.pid, port
        process.kill()


def test_servers_of_others_survive_every_start_and_stop(
    new_manager: Callable[..., Manager], by_hand: tuple[int, int]
) -> None:
    """Neither one started by hand nor another manager's is touched, though program and arguments are the same."""
    first, second = new_manager(), new_manager()
    hand_pid, hand_port = by_hand
    for manager in (first, second):
        manager.write({"alpha": manager.fake("alpha", "--stream", "300", "--delay", "0.1", residency="warm")})
    first.start()
    second.start()
    [mine], [theirs] = first.wait_ready("alpha"), second.wait_ready("alpha")
    streams = [Streaming(second.url, "alpha"), Streaming(f"http://127.0.0.1:{hand_port}", "x")]
    first.kill()
    first.start()
    assert first.wait_ready("alpha") == [mine]
    assert first.stop() == 0
    assert running(hand_pid)
    assert second.wait_ready("alpha") == [theirs]
    before = [len(s.events) for s in streams]
    wait_for(
        lambda: all(len(s.events) > n + 2 for s, n in zip(streams, before, strict=True)),
        SOON,
        "both streams to go on",
    )
    assert [[e["n"] for e in s.events] for s in streams] == [list(range(len(s.events))) for s in streams]


def test_a_second_manager_of_one_state_directory_is_refused(new_manager: Callable[..., Manager]) -> None:
    first = new_manager()
    first.write({"alpha": first.fake("alpha", residency="warm")})
    first.start()
    [pid] = first.wait_ready("alpha")
    second = new_manager(state_dir=first.state_dir)
    second.write({"beta": second.fake("beta", residency="warm")})
    refused = second.launch("--listen", f"127.0.0.1:{second.gateway_port}")
    assert refused.wait(SOON) == 1
    said = second.output.read_text()
    assert re.search(rf"\bpid {first.pid}\b", said), said
    assert "--state-dir" in said
    assert "Traceback" not in said
    assert not second.processes("beta")
    assert first.wait_ready("alpha") == [pid]

    first.kill()
    began = time.monotonic()
    second.start()  # the lock is free at once, and with it come the other manager's models
    assert time.monotonic() - began < 5
    second.wait_ready("beta")
    wait_for(lambda: not running(pid), SOON, "the end of the orphan that this manifest does not name")


def test_a_taken_port_of_the_gateway_is_named_and_nothing_is_started(manager: Manager) -> None:
    manager.write({"alpha": manager.fake("alpha", residency="warm")})
    with socket.create_server(("127.0.0.1", manager.gateway_port)):
        assert manager.launch("--listen", f"127.0.0.1:{manager.gateway_port}").wait(SOON) == 1
    said = manager.output.read_text()
    assert str(manager.gateway_port) in said
    assert "Traceback" not in said
    assert not manager.processes("alpha")
