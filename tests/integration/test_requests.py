"""Clients that leave, wait, come too many at once, or ask for nonsense; against one manager for all."""

import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from manager import CHAT, SOON, Asking, Manager, Streaming, chat
from support import get_json, wait_for

#: Within this the engine must have seen that a client left.
NOTICED = 2.0


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    with Manager(tmp_path_factory.mktemp("requests")) as manager:
        slow = ("--load", "1.0")
        models = {
            "thinks": manager.fake("thinks", "--think", "20"),
            "streams": manager.fake("streams", "--stream", "400", "--delay", "0.05", priority="low"),
            "huge": manager.fake("huge", size=970),
            "left": manager.fake("left", *slow),
            "shared": manager.fake("shared", *slow),
            "waits": manager.fake("waits", "--load", "1.5"),
            "queued": manager.fake("queued", *slow, queue={"max": 2}),
            "other": manager.fake("other"),
            "cold": manager.fake("cold", aliases=["chilly"]),
        }
        manager.write(models)
        yield manager.start()


def send(manager: Manager, model: str, **more: object) -> socket.socket:
    """Send a request and return its connection, which the caller closes."""
    body = json.dumps(chat(model, **more)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    connection = socket.create_connection(("127.0.0.1", manager.gateway_port), SOON)
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def left_early(manager: Manager, model: str) -> int:
    """Return how many clients the engine of a model has seen leaving."""
    return len(get_json(f"http://127.0.0.1:{manager.port_of(model)}/stats")["closed_early"])


def test_a_client_that_leaves_the_queue_takes_its_wish_along(manager: Manager) -> None:
    stream = Streaming(manager.url, "streams")
    [pid] = manager.wait_ready("streams")
    with send(manager, "huge"):
        waiting = manager.wait_model("huge", waiting=1)
        assert waiting["verdict"]["reason"] == "VictimsBusy"
        assert waiting["oldest_wait"] >= 0
    manager.wait_model("huge", waiting=0, timeout=NOTICED)
    assert manager.wait_calm()["action"] is None
    assert manager.wait_ready("streams") == [pid]
    assert manager.log("load", model="huge") == []
    assert stream.error is None
    assert not stream.done


def test_a_client_that_leaves_during_the_load_blocks_nobody(manager: Manager) -> None:
    with send(manager, "left"):
        manager.wait_model("left", state="loading", waiting=1)
    manager.wait_model("left", waiting=0, active=0, timeout=NOTICED)
    began = time.monotonic()
    assert manager.ask("other").status_code == 200
    assert time.monotonic() - began < 5
    manager.wait_calm()
    left = manager.model("left")
    assert left["failures"] == 0
    # Loaded to the end or given up, it is nobody's now, and may give way like any idle model.
    assert left["verdict"]["reason"] in ("Resident", "NotWanted")


def test_a_client_that_leaves_before_the_first_byte_frees_the_engine(manager: Manager) -> None:
    with send(manager, "thinks"):
        manager.wait_model("thinks", active=1)
        wait_for(
            lambda: get_json(f"http://127.0.0.1:{manager.port_of('thinks')}/stats")["active"] == 1,
            SOON,
            "the request at the engine",
        )
    wait_for(lambda: left_early(manager, "thinks") == 1, NOTICED, "the engine to see that its client left")
    manager.wait_model("thinks", active=0, waiting=0, timeout=NOTICED)


def test_a_client_that_leaves_a_stream_frees_the_engine(manager: Manager) -> None:
    before = left_early(manager, "streams") if manager.model("streams")["port"] else 0
    with send(manager, "streams", stream=True) as connection:
        assert b"200 OK" in connection.recv(4096)
        assert connection.recv(4096)
    wait_for(lambda: left_early(manager, "streams") > before, NOTICED, "the engine to see the close")


def test_one_waiter_leaves_and_the_other_is_served_by_the_same_load(manager: Manager) -> None:
    with send(manager, "shared"):
        stays = Asking(manager, "shared")
        manager.wait_model("shared", state="loading", waiting=2)
    manager.wait_model("shared", waiting=1, timeout=NOTICED)
    assert stays.status() == 200
    assert len(manager.log("load", model="shared")) == 1


def test_a_request_waits_for_the_load(manager: Manager) -> None:
    asking = Asking(manager, "waits")
    assert asking.status() == 200
    assert 1.5 <= asking.seconds < 10


def test_a_full_queue_refuses_at_once(manager: Manager) -> None:
    waiting = [Asking(manager, "queued") for _ in range(2)]
    manager.wait_model("queued", waiting=2)
    began = time.monotonic()
    refused = manager.ask("queued")
    assert time.monotonic() - began < 0.5
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    assert [asking.status() for asking in waiting] == [200, 200]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"", 400, "invalid_json"),
        (b"[1]", 400, "invalid_json"),
        (b"{}", 400, "invalid_model"),
        (b'{"model": ""}', 400, "invalid_model"),
        (b'{"model": 7}', 400, "invalid_model"),
        (b'{"model": null}', 400, "invalid_model"),
        (b'{"model": "cild"}', 404, "model_not_found"),
    ],
)
def test_nonsense_is_refused_and_loads_nothing(manager: Manager, body: bytes, status: int, code: str) -> None:
    answer = manager.client.post(CHAT, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    if status == 404:
        assert "cold" in error["message"]
    assert manager.log("load", model="cold") == []


def test_looking_loads_nothing(manager: Manager) -> None:
    ids = [entry["id"] for entry in manager.client.get("/v1/models").json()["data"]]
    assert {"cold", "chilly", "huge"} <= set(ids)
    assert manager.client.get("/v1/models/chilly").status_code == 200
    assert manager.client.get("/healthz").json()["status"] == "ok"
    assert manager.client.get("/api/v1/plan").json()["changes"] is False
    assert manager.log("load", model="cold") == []
    assert manager.model("cold")["state"] == "cold"


def test_an_answer_of_the_engine_comes_through_as_it_is(manager: Manager) -> None:
    direct = httpx.post(
        f"http://127.0.0.1:{manager.port_of('other')}{CHAT}", json=chat("other"), trust_env=False
    )
    answer = manager.ask("other")
    drop = ("created",)
    assert {k: v for k, v in answer.json().items() if k not in drop} == {
        k: v for k, v in direct.json().items() if k not in drop
    }
    assert manager.model("other")["served"] >= 1
