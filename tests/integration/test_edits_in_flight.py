"""Edits that arrive while something is being done: each of these once left a model in a state nobody could end."""

import time
from functools import partial
from itertools import count

import psutil

from manager import SOON, Asking, Manager, Streaming
from support import wait_for


def test_edits_around_the_end_of_a_load_leave_no_dead_endpoint(manager: Manager) -> None:
    """Settings flip while clients ask: whatever the moment, afterwards the model answers and only one process lives."""
    versions = count()

    def save() -> None:
        fake = manager.fake("flip", "--load", "0.05", "--version", f"v{next(versions)}")
        manager.write({"flip": fake | {"timeouts": {"drain": "2s", "stop": "1s"}}})

    save()
    manager.start()
    asking = [Asking(manager, "flip") for _ in range(3)]
    for _ in range(15):
        loads = len(manager.log("load", model="flip"))
        save()
        wait_for(
            partial(_acted, manager, loads, asking), SOON, "the edit is acted on, or nobody asks any more"
        )
        asking = [a if a.is_alive() else Asking(manager, "flip") for a in asking]
    for client in asking:
        client.finish()
    manager.wait_calm()
    assert manager.ask("flip").status_code == 200
    assert len(manager.processes("flip")) == 1


def _acted(manager: Manager, loads: int, asking: list[Asking]) -> bool:
    return len(manager.log("load", model="flip")) > loads or not any(a.is_alive() for a in asking)


def test_an_edit_while_a_failed_load_is_undone_leaves_nothing_half_ended(manager: Manager) -> None:
    stubborn = manager.fake("m", "--load", "1000", "--ignore-term")
    manager.write({"m": stubborn | {"residency": "warm", "timeouts": {"load": "0.5s"}}})
    manager.start()
    manager.wait_log("load", model="m")
    wait_for(lambda: manager.processes("m"), SOON, "the process")
    [old] = manager.processes("m")
    # Half a second of loading, then two of grace before it is killed: the edit falls into those.
    wait_for(lambda: time.time() - psutil.Process(old).create_time() > 1, SOON, "the load is being undone")
    manager.write({"m": manager.fake("m", "--version", "good", residency="warm")})
    [pid] = manager.wait_ready("m")
    assert pid != old
    wait_for(lambda: manager.processes("m") == [pid], SOON, "only the new process is there")
    assert manager.ask("m").status_code == 200


def test_a_model_removed_while_it_streams_is_drained_once(manager: Manager) -> None:
    streams = manager.fake("streams", "--stream", "40", "--delay", "0.05")
    endless = manager.fake("endless", "--stream", "4000", "--delay", "0.05")
    models = {
        "streams": streams,
        "endless": endless | {"timeouts": {"drain": "0.3s"}},
        "other": manager.fake("other"),
    }
    manager.write(models)
    manager.start()
    stream, cut = Streaming(manager.url, "streams"), Streaming(manager.url, "endless")
    manager.write({"other": models["other"], "streams": models["streams"]})
    wait_for(lambda: manager.processes("endless") == [], SOON, "the drain of the endless one is over")
    assert not cut.done or cut.error is not None
    manager.write({"other": models["other"]})
    assert stream.whole() == list(range(40))
    wait_for(lambda: manager.processes("streams") == [], SOON, "the removed one is gone")
    assert manager.ask("other").status_code == 200
    for name in ("streams", "endless"):
        assert len(manager.log("evict", model=name)) == 1
        assert manager.log("given up", model=name) == []
