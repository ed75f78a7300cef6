"""Any server whose state is saved at an address of the user's, and what becomes of an eviction if that hangs."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager import SOON, Manager, running
from scripted_server import Answer, Request, Scripted, scripted
from support import wait_for


class Keeper:
    """Answers /save and /load as told; `/save` writes before it answers, or does not."""

    def __init__(self, script: Scripted) -> None:
        self.script = script
        self.go = threading.Event()
        self.go.set()
        self.saving = threading.Event()
        self.loaded: list[bytes] = []
        script.answer = self.answer  # type: ignore[method-assign]

    def answer(self, request: Request) -> Answer:
        """Save and restore one file."""
        file = Path(request.json()["path"]) / "count"
        if request.path == "/load":
            self.loaded.append(file.read_bytes())
            return 200
        file.write_bytes(b"9" * 1000)
        self.saving.set()
        self.go.wait(30)
        return 200, {"tokens": 9}


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """A keeper of states beside the model."""
    with scripted({}) as script:
        made = Keeper(script)
        try:
            yield made
        finally:
            made.go.set()


def test_an_address_saves_and_restores_and_cannot_hold_an_eviction(manager: Manager, keeper: Keeper) -> None:
    url = keeper.script.url
    state = {"save": f"{url}/save", "load": f"{url}/load", "timeout": "1s"}
    manager.write({"m": manager.fake("m", state=state)})
    manager.start()
    assert manager.ask("m").status_code == 200
    manager.client.post("/api/v1/models/m/evict")
    saved = manager.wait_model("m", state="cold")["saved"]
    assert (saved["tokens"], saved["bytes"]) == (9, 1000)
    assert manager.ask("m").status_code == 200
    assert keeper.loaded == [b"9" * 1000]

    # It hangs: the model goes at the deadline, and starts cold.
    keeper.go.clear()
    began = time.monotonic()
    manager.client.post("/api/v1/models/m/evict")
    gone = manager.wait_model("m", state="cold")["saved"]
    assert 1 <= time.monotonic() - began < 8
    assert (gone["bytes"], gone["note"]) == (0, "state not saved: it took longer than state.timeout (1 s)")
    assert manager.events("state-lost") == [("StateNotSaved", gone["note"])]
    assert manager.ask("m").status_code == 200
    assert keeper.loaded == [b"9" * 1000]
    files = manager.state_dir / "states" / "m" / "files"
    assert not any(files.iterdir())

    # reconcile dies in the middle of a save: the next run finishes the eviction, and saves from the beginning.
    state["timeout"] = "30s"
    manager.write({"m": manager.fake("m", state=state)})
    wait_for(lambda: manager.status()["manifest"]["generation"] == 2, SOON, "the other timeout")
    [pid] = manager.wait_ready("m")
    keeper.saving.clear()
    manager.client.post("/api/v1/models/m/evict")
    assert keeper.saving.wait(SOON)
    assert any(files.iterdir())
    said = wait_for(
        lambda: (a := manager.status()["action"]) and a["doing"] != "draining" and a,
        SOON,
        "the save to be told",
    )
    assert (said["doing"], said["expected"]) == ("saving", 30)
    manager.kill()
    keeper.go.set()
    manager.start()
    assert manager.wait_model("m", state="cold")["saved"]["bytes"] == 1000
    assert not running(pid)

    # What is not in the manifest any more leaves nothing.
    manager.write({"n": manager.fake("n")})
    wait_for(lambda: not files.parent.exists(), SOON, "the state to be dropped")
