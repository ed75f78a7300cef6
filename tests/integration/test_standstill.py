"""The manager stands still for longer than every limit of a request, as on a machine that is suspended."""

import os
import signal
import threading
from pathlib import Path

from manager import SOON, Asking, Manager, Streaming
from support import get_json, wait_for

#: Each is over at half of the time that all stands still.
LIMITS = {"first_byte": "2s", "chunk": "2s", "request": "3s"}
STILL = 4.0


def test_nobody_is_told_a_limit_for_the_time_that_the_manager_stood_still(
    manager: Manager, tmp_path: Path
) -> None:
    """The engines have done their part meanwhile: their answers lie there when it goes on."""
    gate = tmp_path / "ready"
    manager.write(
        {
            "thinks": manager.fake("thinks", "--think", "1", timeouts=LIMITS),
            "streams": manager.fake("streams", "--stream", "8", "--delay", "0.2", timeouts=LIMITS),
            "loads": manager.fake(
                "loads", "--load-until", str(gate), timeouts={"load": "2s"}, queue={"timeout": "2s"}
            ),
        }
    )
    manager.start()
    for model in ("thinks", "streams"):
        assert manager.ask(model).status_code == 200
    stream, thinks, loads = (
        Streaming(manager.url, "streams"),
        Asking(manager, "thinks"),
        Asking(manager, "loads"),
    )
    for model in ("thinks", "streams"):
        manager.wait_model(model, active=1)
    wait_for(lambda: manager.processes("loads"), SOON, "a load that has begun")
    port = manager.port_of("loads")
    wait_for(lambda: get_json(f"http://127.0.0.1:{port}/health"), SOON, "a server that says that it loads")
    os.kill(manager.pid, signal.SIGSTOP)
    try:
        gate.touch()
        threading.Event().wait(STILL)  # it is the passing of time that is tried
    finally:
        os.kill(manager.pid, signal.SIGCONT)
    assert thinks.status() == 200
    assert loads.status() == 200, loads.answer
    assert stream.whole() == list(range(8))
