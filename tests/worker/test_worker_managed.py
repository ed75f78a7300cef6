"""Workers under a real `reconcile`: through the gateway, over a death, over an unload."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from manager import SOON, Manager
from support import get_json, wait_for

CLASSES = '''
import os, threading, time

class Counter:
    """Counts the texts it was given."""
    def __init__(self, args):
        self.count, self.args = 0, args
    def embed(self, texts):
        self.count += len(texts)
        while not os.path.exists("go"):
            time.sleep(0.005)
        return [[float(len(text)), 1.0] for text in texts]
    def infer(self, payload):
        return {"count": self.count, "args": self.args}
    def save_state(self, folder):
        if not self.count:
            return False
        with open(os.path.join(folder, "count"), "w") as file:
            file.write(str(self.count))
    def load_state(self, folder):
        with open(os.path.join(folder, "count")) as file:
            self.count = int(file.read())
    def probe(self):
        return True

class Frail:
    def classify(self, inputs):
        if "die" in inputs:
            os._exit(7)
        return ["fine"] * len(inputs)

class Broken:
    def __init__(self):
        raise OSError("no such file: vocabulary.txt")
    def infer(self, payload):
        return payload
'''
PYTHON = {"engine": "python", "memory": {"steady": "60MiB"}}


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    """A manager of three classes that lie beside its manifest. Each test has a class of its own."""
    with Manager(tmp_path_factory.mktemp("managed")) as made:
        (made.manifests / "desk_classes.py").write_text(CLASSES)
        made.write(
            {
                "count": {
                    **PYTHON,
                    "entry": "desk_classes:Counter",
                    "role": "embedding",
                    "residency": "warm",
                    "args": ["-x"],
                    "state": {"save": True},
                },
                "frail": {**PYTHON, "entry": "desk_classes:Frail", "role": "classify"},
                "broken": {**PYTHON, "entry": "desk_classes:Broken", "role": "chat"},
            }
        )
        yield made.start()


def embed(manager: Manager, text: str) -> list[float]:
    """Ask for one vector."""
    body = {"model": "count", "input": text}
    answer = httpx.post(
        manager.url + "/v1/embeddings", json=body, trust_env=False, verify=False, timeout=SOON
    )
    vector: list[float] = answer.json()["data"][0]["embedding"]
    return vector


def count(manager: Manager) -> object:
    """Ask the class how many texts it was given."""
    return manager.client.post("/infer", json={"model": "count"}).json()


def test_requests_through_the_gateway_are_put_together_and_counted_over_an_unload(manager: Manager) -> None:
    [pid] = manager.wait_ready("count")
    stats = f"http://127.0.0.1:{manager.port_of('count')}/stats"
    with ThreadPoolExecutor(9) as pool:
        vectors = [pool.submit(embed, manager, "x" * i) for i in range(1, 10)]
        wait_for(lambda: get_json(stats)["active"] == 9, SOON, "nine requests at the worker")
        (manager.manifests / "go").touch()
        assert [vector.result() for vector in vectors] == [[float(i), 1.0] for i in range(1, 10)]
    sizes = get_json(stats)["batch_sizes"]
    assert sum(int(size) * times for size, times in sizes.items()) == 9
    assert max(map(int, sizes)) >= 4, "requests that waited were not put together"
    assert count(manager) == {"count": 9, "args": ["-x"]}
    assert manager.client.post("/api/v1/models/count/evict").status_code == 202
    manager.wait_model("count", state="cold")
    assert manager.client.post("/api/v1/models/count/load").status_code == 202
    assert manager.wait_ready("count") != [pid]
    assert count(manager) == {"count": 9, "args": ["-x"]}


def test_a_death_is_reported_and_takes_nothing_else(manager: Manager) -> None:
    def classify(text: str) -> httpx.Response:
        return manager.client.post("/classify", json={"model": "frail", "input": text})

    manager.wait_ready("count")
    assert classify("a").json()["data"] == [{"index": 0, "label": "fine"}]
    pid = manager.model("count")["pid"]
    died = classify("die")
    assert died.status_code in (502, 503), died.text
    died_once = manager.wait_log("model died", model="frail")
    assert "7" in json.dumps(died_once)
    assert manager.model("count")["pid"] == pid
    assert get_json(f"http://127.0.0.1:{manager.port_of('count')}/health") == {"status": "ok"}


def test_a_class_that_cannot_be_made_says_why(manager: Manager) -> None:
    answer = manager.client.post(
        "/v1/chat/completions", json={"model": "broken", "messages": [{"role": "user"}]}
    )
    assert answer.status_code >= 500
    sentence = "constructing its class failed: desk_classes:Broken: OSError: no such file: vocabulary.txt"
    assert sentence in json.dumps(manager.model("broken"))
