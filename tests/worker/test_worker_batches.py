"""Requests that are put into one call of the class, and those that are not."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.worker import runner as runner_module
from reconciler.worker.caches import Caches
from reconciler.worker.errors import Failed, Refused
from reconciler.worker.jobs import Batch, Job
from reconciler.worker.runner import Runner
from reconciler.worker.service import rows
from reconciler.worker.stats import Stats
from support import wait_for
from worker_process import SOON, Worker, worker

#: Its first call lasts until the file `go` is there, so that all others have to get in line.
GATED = """
import os, threading, time

class Model:
    def __init__(self):
        self.thread = threading.get_ident()
        self.busy = False
        self.seen = []
    def embed(self, texts, *, dimensions=2):
        assert not self.busy, "two calls at once"
        assert threading.get_ident() == self.thread, "another thread than the constructor's"
        self.busy = True
        try:
            self.seen.append(list(texts))
            while not os.path.exists("go"):
                time.sleep(0.005)
            if "bad" in texts:
                raise ValueError("bad text")
            return [[float(len(t))] * dimensions for t in texts]
        finally:
            self.busy = False
    def infer(self, payload):
        return self.seen
"""


def ask(running: Worker, texts: object, **more: object) -> httpx.Response:
    """Send one request of its own connection."""
    url = f"http://127.0.0.1:{running.port}/v1/embeddings"
    return httpx.post(url, json={"input": texts, **more}, trust_env=False, verify=False, timeout=SOON)


def _active(running: Worker, count: int) -> bool:
    return bool(running.stats()["active"] == count)


def queued(running: Worker, tmp_path: Path, requests: Sequence[Callable[[], Any]]) -> list[Any]:
    """Send one request that holds the class, and these while it does; return their results in order."""
    with ThreadPoolExecutor(len(requests) + 1) as pool:
        first = pool.submit(ask, running, "first")
        wait_for(partial(_active, running, 1), SOON, "the first request")
        others = []
        for i, request in enumerate(requests):
            others.append(pool.submit(request))
            wait_for(partial(_active, running, i + 2), SOON, "the next in line")
        (tmp_path / "go").touch()
        assert first.result().status_code == 200
        return [other.result() for other in others]


def test_what_waits_together_is_worked_on_together(tmp_path: Path) -> None:
    with worker(tmp_path, GATED, "embedding", "--batch-max", "8") as running:
        answers = queued(running, tmp_path, [partial(ask, running, "x" * i) for i in range(1, 21)])
        assert [a.json()["data"][0]["embedding"] for a in answers] == [[float(i)] * 2 for i in range(1, 21)]
        stats = running.stats()
        assert stats["batch_sizes"] == {"1": 1, "4": 1, "8": 2}
        assert (stats["batches"], stats["items"], stats["items_per_batch"]) == (4, 21, 5.25)
        assert (stats["requests"], stats["errors"], stats["active"]) == (21, 0, 0)


def test_one_that_fails_fails_alone(tmp_path: Path) -> None:
    with worker(tmp_path, GATED, "embedding") as running:
        texts = ["aa", ["bbb", "bad"], "c"]
        answers = queued(running, tmp_path, [partial(ask, running, text) for text in texts])
        assert [a.status_code for a in answers] == [200, 500, 200]
        assert answers[1].json()["error"]["message"] == "ValueError: bad text"
        assert running.post("/infer").json() == [
            ["first"],
            ["aa", "bbb", "bad", "c"],
            ["aa"],
            ["bbb", "bad"],
            ["c"],
        ]
        assert running.text().count("Traceback") == 1


def test_other_options_are_another_call_and_a_large_request_is_several(tmp_path: Path) -> None:
    with worker(tmp_path, GATED, "embedding", "--batch-max", "4") as running:
        requests = [
            partial(ask, running, "a"),
            partial(ask, running, "b", dimensions=3),
            partial(ask, running, list("cdefgh")),
        ]
        answers = queued(running, tmp_path, requests)
        assert [len(a.json()["data"][0]["embedding"]) for a in answers] == [2, 3, 2]
        assert len(answers[2].json()["data"]) == 6
        assert running.post("/infer").json() == [
            ["first"],
            ["a", "c", "d", "e"],
            ["b"],
            ["f", "g", "h"],
        ]


def test_the_first_waits_for_others_until_a_batch_is_full(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with worker(tmp_path, GATED, "embedding", "--batch-max", "3", "--batch-wait", "30") as running:
        began = time.monotonic()
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda text: ask(running, text), "abc"))
        assert time.monotonic() - began < SOON
        assert [a.status_code for a in answers] == [200] * 3
        assert running.stats()["batch_sizes"] == {"3": 1}


def test_the_first_waits_no_longer_than_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with worker(tmp_path, GATED, "embedding", "--batch-wait", "0.2") as running:
        began = time.monotonic()
        assert ask(running, "a").status_code == 200
        assert time.monotonic() - began >= 0.2
        assert running.stats()["batch_sizes"] == {"1": 1}


def test_a_request_whose_client_has_left_is_not_worked_on(tmp_path: Path) -> None:
    def leave(running: Worker) -> str:
        url = f"http://127.0.0.1:{running.port}/v1/embeddings"
        try:
            httpx.post(url, json={"input": "gone"}, trust_env=False, verify=False, timeout=0.3)
        except httpx.ReadTimeout:
            wait_for(lambda: running.stats()["errors"] == 1, SOON, "the worker to notice")
            return "left"
        return "answered"

    with worker(tmp_path, GATED, "embedding") as running, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, running, "first")
        wait_for(partial(_active, running, 1), SOON, "the first request")
        assert leave(running) == "left"
        (tmp_path / "go").touch()
        assert first.result().status_code == 200
        assert running.post("/infer").json() == [["first"]]


def test_a_class_that_allows_it_is_called_side_by_side(tmp_path: Path) -> None:
    text = """
    import asyncio, threading
    class Model:
        concurrent = True
        def __init__(self):
            self.meet = threading.Barrier(3)
            self.event, self.here = None, 0
        def embed(self, texts):
            self.meet.wait(10)
            return [[1.0] for _ in texts]
        async def infer(self, payload):
            self.event = self.event or asyncio.Event()
            self.here += 1
            if self.here == 3:
                self.event.set()
            await asyncio.wait_for(self.event.wait(), 10)
            return self.here
        def chat(self, messages):
            yield "x"
    """
    with worker(tmp_path, text, "embedding") as running, ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda text: ask(running, text), "abc"))
        assert [a.status_code for a in answers] == [200] * 3
        url = f"http://127.0.0.1:{running.port}/infer"
        together = list(
            pool.map(lambda _: httpx.post(url, trust_env=False, verify=False, json=1).json(), range(3))
        )
        assert together == [3, 3, 3]


# -- without a process ---------------------------------------------------------------------------------------------


class Running:
    """A runner in a thread, with a function for a class."""

    def __init__(self, most: int, model: object = None) -> None:
        self.stats = Stats()
        self.runner = Runner(most, 0.0, Caches(model), self.stats)
        self.thread = threading.Thread(target=self.runner.run, daemon=True)

    def __enter__(self) -> "Running":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.runner.stop()
        self.thread.join(SOON)
        assert not self.thread.is_alive()


def double(items: list[Any]) -> list[Any]:
    """Stand for a method of a class, for which negative numbers are bad."""
    if any(item < 0 for item in items):
        raise ValueError("negative")
    return rows("double", [2 * item for item in items], len(items))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(-1, 9), min_size=1, max_size=7)), max_size=12),
    st.integers(1, 6),
)
def test_each_request_gets_its_own_results_and_its_own_failure(
    requests: list[tuple[int, list[int]]], most: int
) -> None:
    running = Running(most)
    jobs = [Batch(key, double, items) for key, items in requests]
    for job in jobs:
        running.runner.submit(job)
    with running:
        for job, (_, items) in zip(jobs, requests, strict=True):
            if min(items) < 0:
                with pytest.raises(Failed, match="ValueError: negative"):
                    job.result(lambda: False)
            else:
                assert job.result(lambda: False) == [2 * item for item in items]
    sizes = running.stats.document()["batch_sizes"]
    assert all(1 <= int(size) <= most for size in sizes)


def test_what_is_in_line_when_it_stops_is_refused() -> None:
    running = Running(4)
    job = Job(lambda: 1)
    running.runner.submit(job)
    running.runner.stop()
    with running, pytest.raises(Refused, match="stopping"):
        job.result(lambda: False)
    with pytest.raises(Refused, match="stopping"):
        running.runner.submit(Job(lambda: 1))


class Emptied:
    """Counts how often its caches were emptied."""

    def __init__(self) -> None:
        self.times = 0

    def empty_cache(self) -> None:
        self.times += 1


def test_caches_are_emptied_when_nothing_is_asked_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "IDLE_SECONDS", 0.01)
    model = Emptied()
    with Running(4, model) as running:
        job = Job(lambda: 1)
        running.runner.submit(job)
        assert job.result(lambda: False) == 1
        wait_for(lambda: model.times == 1, SOON, "the caches to be emptied")
    assert model.times == 1, "emptied again, although nothing was called since"


def test_caches_are_emptied_after_many_calls_and_when_memory_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.worker.caches.EVERY_CALLS", 3)
    monkeypatch.setattr("reconciler.worker.caches.EVERY_SECONDS", 0.0)
    model = Emptied()
    caches = Caches(model)
    seen = []
    for _ in range(7):
        caches.called()
        seen.append(model.times)
    assert seen == [0, 0, 1, 1, 1, 2, 2]
    caches.failed(RuntimeError("CUDA out of memory"))
    caches.failed(ValueError("else"))
    assert model.times == 3
