"""Alternating traffic with all that may keep a request waiting: loads, a hold, a gate, a virtual name, comments."""

import itertools
from typing import Any

import httpx

from manager import CHAT, SOON, Background, Manager, chat
from support import wait_for

ROUNDS = 4
#: Whom each client asks, round after round, and whether it wants a stream.
CLIENTS = [
    (("a", "b"), True),
    (("b", "a"), True),
    (("a", "auto"), False),
    (("auto", "b"), True),
    (("side", "b"), True),
    (("side", "a"), False),
]
#: Who of them comes to b and gets no further while a is held.
WAIT_FOR_B = 4


class Client(Background):
    """One client that asks again as soon as it has its answer."""

    def __init__(self, manager: Manager, models: tuple[str, ...], stream: bool) -> None:
        super().__init__()
        self.manager, self.models, self.stream = manager, models, stream
        #: Which model answered each request, and what a stream was told before.
        self.answered: list[str] = []
        self.told: list[str] = []
        self.start()

    def work(self) -> None:
        with httpx.Client(trust_env=False, timeout=30, base_url=self.manager.url) as client:
            for model in itertools.islice(itertools.cycle(self.models), ROUNDS):
                with client.stream("POST", CHAT, json=chat(model, stream=self.stream)) as answer:
                    lines = list(answer.iter_lines())
                assert answer.status_code == 200, lines
                assert not self.stream or "data: [DONE]" in lines, lines
                self.answered.append(answer.headers["x-reconciler-model"])
                self.told += [line for line in lines if line.startswith(":")]


def test_nobody_is_forgotten(manager: Manager) -> None:
    """Of a and b one fits at a time; all three compute in turn."""
    models = {
        "a": manager.fake("a", "--think", "0.02", size=600, gate="turn"),
        "b": manager.fake("b", "--think", "0.02", size=600, gate="turn"),
        "side": manager.fake("side", "--think", "0.02", size=50, gate="turn"),
    }
    gateway = {
        "comments": True,
        "gates": {"turn": {"limit": 1}},
    }
    virtual = {"auto": {"use": ["a", "b"], "strategy": "ready"}}
    manager.write(models, gateway=gateway, virtual=virtual)
    manager.start()
    hold = manager.client.post(
        "/api/v1/leases", json={"model": "a", "owner": "batch", "for": "1m", "wait": True}
    )
    assert hold.json()["state"] == "held"

    clients = [Client(manager, models, stream) for models, stream in CLIENTS]
    waiting = manager.wait_model("b", waiting=WAIT_FOR_B)
    with manager.client.stream("POST", CHAT, json=chat("b", stream=True)) as leaver:
        assert next(leaver.iter_lines()).startswith(": ")
    manager.wait_model("b", waiting=WAIT_FOR_B)
    assert (waiting["state"], waiting["verdict"]["reason"]) == ("blocked", "VictimsBusy")
    assert manager.model("a")["state"] == "ready"
    assert manager.client.delete(f"/api/v1/leases/{hold.json()['id']}").status_code == 204

    def over() -> bool:
        [gate] = [gate for gate in manager.status()["gates"] if gate["name"] == "turn"]
        assert len(gate["inside"]) <= 1
        return not any(client.is_alive() for client in clients)

    wait_for(over, SOON, "the last answer")
    for client, (asked, stream) in zip(clients, CLIENTS, strict=True):
        client.finish()
        for wanted, model in zip(itertools.cycle(asked), client.answered, strict=False):
            assert model in ({"a", "b"} if wanted == "auto" else {wanted})
        assert len(client.answered) == ROUNDS
        assert bool(client.told) == stream, client.told
    check_calm(manager.wait_calm())


def check_calm(status: dict[str, Any]) -> None:
    """Assert that whoever got a place gave it back, that nobody waits, and that nothing failed."""
    assert status["requests"]["granted"] == status["requests"]["ended"] == ROUNDS * len(CLIENTS)
    for model in status["models"]:
        assert {model[key] for key in ("active", "waiting", "gated", "leases", "failures")} == {0}, model
    assert all((gate["inside"], gate["waiting"]) == ([], 0) for gate in status["gates"])
