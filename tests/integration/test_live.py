"""What live screens are fed with, from a real loop: a stream from a load to the end of the loop, and a timeline."""

import http.client
import json
import threading
import time
from typing import Any

from manager import SOON, Manager
from reconciler.cli.sse import stream
from support import wait_for

Came = list[tuple[str, Any]]


def followed(manager: Manager, came: Came, broken: list[str]) -> threading.Thread:
    """Follow the stream of a loop in a thread until it ends."""

    def follow() -> None:
        try:
            for kind, data in stream(manager.url, "/api/v1/stream"):
                came.append((kind, json.loads(data)))
        except (OSError, http.client.HTTPException) as error:
            broken.append(str(error))

    thread = threading.Thread(target=follow)
    thread.start()
    return thread


def states(came: Came) -> list[str]:
    """Return the states of chat that were shown, each once."""
    seen = [model["state"] for kind, data in came if kind == "status" for model in data["models"]]
    return [state for n, state in enumerate(seen) if n == 0 or seen[n - 1] != state]


def told(came: Came) -> list[str]:
    """Return the kinds of the events that came."""
    return [data["kind"] for kind, data in came if kind == "event"]


def test_a_stream_from_a_load_to_the_end_of_the_loop(manager: Manager) -> None:
    manager.write({"chat": manager.fake("chat", "--load", "1.5")})
    manager.start()
    came: Came = []
    broken: list[str] = []
    thread = followed(manager, came, broken)
    wait_for(lambda: [kind for kind, _ in came[:2]] == ["status", "plan"], SOON, "the first documents")
    began = time.time()
    assert manager.ask("chat").status_code == 200
    wait_for(lambda: "ready" in states(came), SOON, "chat to be shown as ready")
    assert states(came) == ["cold", "loading", "ready"]
    wait_for(lambda: "loaded" in told(came), SOON, "the end of the load to be told")
    assert told(came) == ["load", "loaded"]
    shown = manager.client.get(f"/api/v1/timeline?since={began - 60}").json()
    [done] = shown["actions"]
    assert (done["action"], done["model"], done["outcome"]) == ("load", "chat", "ready")
    assert shown["samples"][-1]["models"].keys() == {"chat"}
    assert shown["from"] > began - 60
    assert manager.stop() == 0
    thread.join(SOON)
    assert (came[-1], broken) == (("end", {}), [])
    assert told(came) == ["load", "loaded", "evict", "evicted"]
    assert next(data for kind, data in reversed(came) if kind == "status")["halted"]
