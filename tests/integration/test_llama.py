"""The whole program with real llama.cpp servers on generated weights."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from manager import CHAT, Background, Manager, Sampler, chat
from reconciler.simulate.trace_read import read_trace
from tiny_gguf import context_bytes_per_token, write_llama

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.engine

REQUESTS = 60
AT_ONCE = 12


def layout(manager: Manager, *names: str, context: int = 512) -> dict[str, dict[str, object]]:
    """Return models that each serve weights of their own, whose path names the process for the sampler."""
    models: dict[str, dict[str, object]] = {}
    for name in names:
        weights = write_llama(Path(manager.tag(name)) / "model.gguf")
        length = {"max_tokens": context, "bytes_per_token": context_bytes_per_token()}
        models[name] = {"engine": "llama.cpp", "weights": str(weights), "context": length}
    return models


class Client(Background):
    """One of several clients, which asks these models one after the other."""

    def __init__(self, url: str, models: Sequence[str]) -> None:
        super().__init__()
        self.url, self.models = url, models
        self.answers: list[tuple[str, httpx.Response]] = []
        self.start()

    def work(self) -> None:
        with httpx.Client(trust_env=False, timeout=60, base_url=self.url) as client:
            for model in self.models:
                self.answers.append((model, client.post(CHAT, json=chat(model))))


def test_two_models_that_fit_one_at_a_time_both_answer_all(manager: Manager) -> None:
    """60 alternating requests, 12 at once."""
    manager.write(layout(manager, "alpha", "beta"), memory=40)
    manager.start()
    turns = list(itertools.islice(itertools.cycle(["alpha", "beta"]), REQUESTS // AT_ONCE + 1))
    with Sampler({name: manager.tag(name) for name in ("alpha", "beta")}) as table:
        clients = [Client(manager.url, turns[i % 2 :][: REQUESTS // AT_ONCE]) for i in range(AT_ONCE)]
        answers = [answer for client in clients for answer in client.finish(50).answers]
        manager.wait_calm()
    assert len(answers) == REQUESTS
    assert [a.text for _, a in answers if a.status_code != 200] == []
    assert {model: sum(m == model for m, _ in answers) for model in ("alpha", "beta")} == {
        "alpha": REQUESTS // 2,
        "beta": REQUESTS // 2,
    }
    assert all(a.json()["usage"]["completion_tokens"] >= 1 for _, a in answers)
    assert table.most(["alpha", "beta"]) == 1
    assert min(table.of("alpha"), table.of("beta")) > 0

    loads, evicts = manager.log("load"), manager.log("evict")
    assert len(loads) >= 2
    assert len(evicts) == len(loads) - 1
    assert {line["reason"] for line in loads} == {"Demanded"}
    assert {line["reason"] for line in evicts} == {"MakeRoom"}
    assert all("waiting" in line["why"] for line in loads)
    assert all(line["for_model"] != line["model"] for line in evicts)
    # Load, evict, load, evict ...: each begun only when the one before it is finished.
    steps = manager.steps()
    names = [line["model"] for line in loads]
    expected = [f"load {names[0]}", f"loaded {names[0]}"]
    for old, new in itertools.pairwise(names):
        expected += [f"evict {old}", f"evicted {old}", f"load {new}", f"loaded {new}"]
    assert steps == expected
    # One load serves everybody who waits: far fewer swaps than requests.
    assert len(loads) <= REQUESTS / 2

    # The last one lives on when the manager does not.
    [pid] = manager.wait_ready(names[-1])
    manager.kill()
    manager.start()
    assert manager.ask(names[-1]).status_code == 200
    assert manager.wait_ready(names[-1]) == [pid]
    assert manager.steps() == [*expected, f"adopted {names[-1]}"]


def test_too_many_tokens_are_refused_and_bad_files_evict_nobody(manager: Manager) -> None:
    """Cut off, empty or missing weights are seen before the first victim goes."""
    models = layout(manager, "good", "cut", "empty", "missing", context=256)
    whole = Path(str(models["cut"]["weights"]))
    whole.write_bytes(whole.read_bytes()[:500])
    Path(str(models["empty"]["weights"])).write_bytes(b"")
    Path(str(models["missing"]["weights"])).unlink()
    manager.write(models, memory=150)
    manager.start()
    assert manager.ask("good").status_code == 200
    [pid] = manager.wait_ready("good")
    for name in ("cut", "empty", "missing"):
        answer = manager.ask(name, timeout=2)
        assert answer.status_code == 503, name
        assert answer.json()["error"]["code"] == "not_startable"
        assert str(models[name]["weights"]) in answer.json()["error"]["message"]
    assert manager.wait_ready("good") == [pid]
    assert manager.steps() == ["load good", "loaded good"]

    # Too many tokens: the gateway says all the numbers; asked without it, the engine's own words come through.
    body = chat("good", stream=True) | {"messages": [{"role": "user", "content": "x" * 6000}]}
    answer = manager.client.post(CHAT, json=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "maximum context length is 256 tokens" in answer.json()["error"]["message"]
    raw = manager.client.post(f"/upstream/good{CHAT}", json=body)
    direct = httpx.post(
        f"http://127.0.0.1:{manager.port_of('good')}{CHAT}", json=body, trust_env=False, timeout=30
    )
    assert raw.json()["error"]["type"] == "exceed_context_size_error"
    assert raw.json()["error"]["n_ctx"] == 256
    assert (raw.status_code, raw.content) == (direct.status_code, direct.content) == (400, raw.content)
    assert manager.ask("good").status_code == 200


@pytest.mark.parametrize("streams", [False, True])
def test_the_tokens_that_llama_cpp_tells_are_in_an_export(
    manager: Manager, tmp_path: Path, streams: bool
) -> None:
    manager.write(layout(manager, "alpha"), memory=40)
    manager.start()
    told = [
        manager.ask("alpha").json()["usage"] for _ in range(2)
    ]  # the second prompt comes out of the cache
    if streams:  # no usage is asked for: the timings tell the same
        with httpx.Client(trust_env=False, timeout=60, base_url=manager.url) as client:
            assert b'"usage"' not in client.post(CHAT, json=chat("alpha", stream=True)).content
        told.append(told[0])
    file = tmp_path / "own.csv"
    assert manager.cli("history", "--export", str(file)).returncode == 0
    trace = read_trace(file)
    assert list(trace.prompt_tokens) == [usage["prompt_tokens"] for usage in told]
    assert list(trace.output_tokens) == [usage["completion_tokens"] for usage in told]
    assert min(trace.prompt_tokens) > 0
