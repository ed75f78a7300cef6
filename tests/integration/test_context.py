"""Long conversations through the whole program, with real llama.cpp servers of which one fits at a time."""

from pathlib import Path
from typing import Any

import pytest

from context_talks import chat_of
from manager import CHAT, Manager
from tiny_gguf import context_bytes_per_token, write_llama

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.engine

CONTEXT = 1024


def model(manager: Manager, name: str, **context: Any) -> dict[str, object]:
    weights = write_llama(Path(manager.tag(name)) / "model.gguf")
    length = {"max_tokens": CONTEXT, "bytes_per_token": context_bytes_per_token()} | context
    return {"engine": "llama.cpp", "weights": str(weights), "context": length}


def test_a_long_chat_is_refused_shortened_or_summarised_as_its_model_says(manager: Manager) -> None:
    manager.write(
        {
            "strict": model(manager, "strict"),
            "trims": model(manager, "trims", overflow="trim"),
            "tells": model(manager, "tells", overflow="summarize", summarizer="trims"),
        },
        memory=40,
    )
    manager.start()
    # 12 turns of 130 bytes; this vocabulary has a token for each byte.
    asked = {**chat_of(12, words=10), "max_tokens": 64, "ignore_eos": True}

    refused = manager.client.post(CHAT, json=asked | {"model": "strict"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert f"maximum context length is {CONTEXT} tokens" in refused.json()["error"]["message"]
    assert "counted by the model's tokenizer" in refused.json()["error"]["message"]

    trimmed = manager.client.post(CHAT, json=asked | {"model": "trims"})
    assert trimmed.status_code == 200
    assert trimmed.headers["x-reconciler-context"].startswith("trimmed ")
    assert CONTEXT // 2 < trimmed.json()["usage"]["prompt_tokens"] <= CONTEXT - 64

    # The two models do not fit beside each other: neither lease may be held while the other one is waited for.
    told = manager.client.post(CHAT, json=asked | {"model": "tells"})
    assert told.status_code == 200
    assert told.headers["x-reconciler-context"].startswith("summarized ")
    assert told.json()["usage"]["prompt_tokens"] <= CONTEXT - 64
    manager.wait_calm()
    loads = [line["model"] for line in manager.log("load")]
    assert loads == ["strict", "trims", "tells", "trims", "tells"]

    # The same beginning is not summarised again.
    again = manager.client.post(CHAT, json=asked | {"model": "tells"})
    assert again.headers["x-reconciler-context"] == told.headers["x-reconciler-context"]
    assert len(manager.log("load")) == len(loads)


def test_what_can_never_fit_loads_nothing(manager: Manager) -> None:
    manager.write({"strict": model(manager, "strict")}, memory=40)
    manager.start()
    answer = manager.client.post(CHAT, json=chat_of(1, words=5000) | {"model": "strict"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    answer = manager.client.post(CHAT, json=chat_of(0) | {"model": "strict", "max_tokens": CONTEXT})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert manager.log("load") == []
