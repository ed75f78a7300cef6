"""The libraries people use, against the whole program with real llama.cpp servers behind it.

`native` is a llama.cpp server that knows Anthropic's API itself; `wrapped` is the same server started as a `command`
of which nothing is known, so that its messages are translated; `caller` always calls the first tool.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager import Asking, Manager
from support import wait_for
from tiny_gguf import context_bytes_per_token, write_llama

pytest.importorskip("xllamacpp")
import anthropic
import openai
from anthropic.types import MessageParam, TextBlock, ToolParam, ToolUseBlock
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from pydantic import SecretStr

pytestmark = pytest.mark.engine

CONTEXT = 512
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
LONG = "x" * 2000
SCHEMA: dict[str, object] = {"type": "object", "properties": {"heard": {"type": "string"}}}
FUNCTION: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "listen", "parameters": SCHEMA},
}
TOOL: ToolParam = {"name": "listen", "description": "Listens.", "input_schema": SCHEMA}
#: The most probable token each time: with random weights any other choice ends an answer now and then at once.
STEADY = ["-t", "1", "--temp", "0"]
LAUNCHER = [
    sys.executable,
    "-P",
    "-m",
    "reconciler.engines.llama.launcher",
    "--port",
    "${port}",
    "-c",
    str(CONTEXT),
    *STEADY,
]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    """One manager for all tests here. Nothing is loaded before somebody asks."""
    root = tmp_path_factory.mktemp("clients")
    with Manager(root) as made:
        weights = str(write_llama(root / "tiny.gguf"))
        length = {"max_tokens": CONTEXT, "bytes_per_token": context_bytes_per_token()}
        llama: dict[str, object] = {"engine": "llama.cpp", "weights": weights, "context": length}
        wrapped: dict[str, object] = {
            "engine": "command",
            "command": [*LAUNCHER, "-m", weights],
            "memory": {"steady": "40MiB"},
        }
        slow = made.fake("slow", "--load-until", str(root / "go"), queue={"max": 1})
        models: dict[str, dict[str, object]] = {
            "native": {**llama, "aliases": ["gpt-4o", "claude-sonnet"], "args": STEADY},
            "vectors": {**llama, "role": "embedding", "args": ["--pooling", "mean", *STEADY]},
            "wrapped": wrapped,
            "caller": made.fake("caller"),
            "slow": slow,
        }
        made.write(models)
        yield made.start()


@pytest.fixture
def oa(manager: Manager) -> Iterator[openai.OpenAI]:
    """OpenAI's client; it tries nothing twice, so that every error shows."""
    with openai.OpenAI(base_url=f"{manager.url}/v1", api_key="any", max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def an(manager: Manager) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client."""
    with anthropic.Anthropic(base_url=manager.url, api_key="any", max_retries=0, timeout=30) as client:
        yield client


def curl(manager: Manager, path: str, *options: str) -> str:
    """Return what curl prints for a path."""
    command = ["curl", "-sS", "--noproxy", "*", "-m", "20", *options, f"{manager.url}{path}"]
    return subprocess.run(command, capture_output=True, check=True, timeout=25).stdout.decode()


# -- OpenAI ---------------------------------------------------------------------------------------------------------


def test_openai_chat_loads_the_model_first(manager: Manager, oa: openai.OpenAI) -> None:
    assert manager.model("native")["state"] != "ready"
    raw = oa.chat.completions.with_raw_response.create(model="gpt-4o", messages=HI, max_tokens=4)
    assert raw.headers["x-reconciler-model"] == "native"
    assert float(raw.headers["x-reconciler-waited"]) > 0
    answer = raw.parse()
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4
    assert manager.model("native")["state"] == "ready"


@pytest.mark.parametrize("model", ["native", "wrapped"])
def test_openai_stream(oa: openai.OpenAI, model: str) -> None:
    stream = oa.chat.completions.create(
        model=model,
        messages=HI,
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] in ("length", "stop")
    assert chunks[-1].usage is not None
    assert 1 <= chunks[-1].usage.completion_tokens <= 6


def test_openai_tools(oa: openai.OpenAI) -> None:
    answer = oa.chat.completions.create(model="caller", messages=HI, tools=[FUNCTION])
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].type == "function"
    assert json.loads(calls[0].function.arguments) == {"role": "user", "heard": "hi"}
    pieces = oa.chat.completions.create(model="caller", messages=HI, tools=[FUNCTION], stream=True)
    deltas = [call for p in pieces for call in p.choices[0].delta.tool_calls or []]
    text = "".join(d.function.arguments or "" for d in deltas if d.function is not None)
    assert json.loads(text) == {"role": "user", "heard": "hi"}
    taken = oa.chat.completions.create(model="native", messages=HI, tools=[FUNCTION], max_tokens=2)
    assert taken.choices[0].finish_reason == "length"


def test_openai_embeddings_completions_and_responses(oa: openai.OpenAI) -> None:
    vectors = oa.embeddings.create(model="vectors", input=["one", "two"])
    assert [len(v.embedding) for v in vectors.data] == [64, 64]
    assert vectors.data[0].embedding != vectors.data[1].embedding
    text = oa.completions.create(model="native", prompt="hi", max_tokens=3)
    assert text.usage is not None
    assert text.usage.completion_tokens == 3
    response = oa.responses.create(model="native", input="hi", max_output_tokens=3)
    assert response.usage is not None
    assert response.usage.output_tokens == 3
    kinds = [
        e.type for e in oa.responses.create(model="native", input="hi", max_output_tokens=3, stream=True)
    ]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")


def test_openai_models(oa: openai.OpenAI) -> None:
    listed = list(oa.models.list())
    names = sorted(m.id for m in listed)
    assert names == ["caller", "claude-sonnet", "gpt-4o", "native", "slow", "vectors", "wrapped"]
    assert {m.object for m in listed} == {"model"}
    assert oa.models.retrieve("gpt-4o").id == "gpt-4o"


def test_openai_errors(manager: Manager, oa: openai.OpenAI, tmp_path: Path) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        oa.chat.completions.create(model="gpt-5", messages=HI)
    assert missing.value.code == "model_not_found"
    assert "native" in missing.value.message
    with pytest.raises(openai.BadRequestError) as long:
        oa.chat.completions.create(model="native", messages=[{"role": "user", "content": LONG}], max_tokens=4)
    assert long.value.code == "context_length_exceeded"
    assert str(CONTEXT) in long.value.message
    with pytest.raises(openai.BadRequestError) as role:
        oa.embeddings.create(model="native", input="x")
    assert role.value.code == "wrong_role"
    assert "vectors" in role.value.message


def test_one_more_than_the_queue_takes_and_the_one_who_waited(manager: Manager, oa: openai.OpenAI) -> None:
    first = Asking(manager, "slow")
    wait_for(lambda: manager.model("slow")["waiting"] == 1, 15, "one request that waits")
    with pytest.raises(openai.RateLimitError) as full:
        oa.chat.completions.create(model="slow", messages=HI)
    assert full.value.code == "queue_full"
    assert int(full.value.response.headers["retry-after"]) >= 1
    (manager.root / "go").touch()
    answer = first.finish(20).answer
    assert answer is not None
    assert answer.status_code == 200


# -- Anthropic ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["claude-sonnet", "wrapped", "caller"])
def test_anthropic_messages(an: anthropic.Anthropic, model: str) -> None:
    message = an.messages.create(
        model=model,
        max_tokens=4,
        system="Be brief.",
        messages=[{"role": "user", "content": "hi"}],
    )
    assert (message.type, message.role) == ("message", "assistant")
    assert message.stop_reason in ("max_tokens", "end_turn")
    assert isinstance(message.content[0], TextBlock)
    assert message.usage.output_tokens >= 1


@pytest.mark.parametrize("model", ["native", "wrapped", "caller"])
def test_anthropic_stream(an: anthropic.Anthropic, model: str) -> None:
    with an.messages.stream(
        model=model, max_tokens=6, messages=[{"role": "user", "content": "hi"}]
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(b.text for b in final.content if isinstance(b, TextBlock)) == text
    assert text
    assert final.stop_reason in ("max_tokens", "end_turn")
    assert final.usage.output_tokens >= 1


def test_anthropic_tools(an: anthropic.Anthropic) -> None:
    """A tool is called, its result sent back, and the model hears of it: whole, then streamed."""
    message = an.messages.create(
        model="caller",
        max_tokens=9,
        tools=[TOOL],
        messages=[{"role": "user", "content": "hi"}],
    )
    assert message.stop_reason == "tool_use"
    [call] = message.content
    assert isinstance(call, ToolUseBlock)
    assert (call.name, call.input) == ("listen", {"role": "user", "heard": "hi"})
    with an.messages.stream(
        model="caller",
        max_tokens=9,
        tools=[TOOL],
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "so"}]},
        ],
    ) as stream:
        [again] = stream.get_final_message().content
    assert isinstance(again, ToolUseBlock)
    assert again.input == {"role": "tool", "heard": "so"}
    taken = an.messages.create(
        model="native",
        max_tokens=2,
        tools=[TOOL],
        messages=[{"role": "user", "content": "hi"}],
    )
    assert taken.stop_reason == "max_tokens"


def test_anthropic_count_tokens(an: anthropic.Anthropic) -> None:
    """The tokenizer has a token for each byte; of a server of which nothing is known the count is an estimate."""

    def count(model: str, length: int) -> tuple[int, str | None]:
        messages: list[MessageParam] = [{"role": "user", "content": "x" * length}]
        raw = an.messages.with_raw_response.count_tokens(model=model, messages=messages)
        return raw.parse().input_tokens, raw.headers.get("x-reconciler-estimate")

    (few, stated), (many, _) = count("native", 1), count("native", 101)
    assert (many - few, stated) == (100, None)
    (few, stated), (many, _) = count("wrapped", 1), count("wrapped", 101)
    assert many > few
    assert stated is not None


def test_anthropic_errors(an: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        an.messages.create(model="claude-9", max_tokens=4, messages=[{"role": "user", "content": "hi"}])
    assert missing.value.type == "not_found_error"
    for model in ("native", "wrapped"):
        with pytest.raises(anthropic.BadRequestError) as long:
            an.messages.create(model=model, max_tokens=4, messages=[{"role": "user", "content": LONG}])
        assert long.value.type == "invalid_request_error"
        assert "prompt is too long" in long.value.message
    with pytest.raises(anthropic.BadRequestError, match=r"tools.0.type"):
        an.messages.create(
            model="caller",
            max_tokens=4,
            messages=[{"role": "user", "content": "hi"}],
            tools=[{"type": "web_search_20250305", "name": "web_search"}],
        )


# -- LangChain and curl ---------------------------------------------------------------------------------------------


def test_langchain(manager: Manager) -> None:
    url = f"{manager.url}/v1"
    chat = ChatOpenAI(model="native", base_url=url, api_key="any", max_retries=0, max_tokens=4)
    whole = chat.invoke("hi")
    assert whole.response_metadata["finish_reason"] in ("length", "stop")
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] >= 1
    pieces = list(chat.stream("hi"))
    assert len(pieces) >= 2
    embed = OpenAIEmbeddings(
        model="vectors",
        openai_api_base=url,
        openai_api_key=SecretStr("any"),
        check_embedding_ctx_length=False,
    )
    assert [len(v) for v in embed.embed_documents(["one", "two"])] == [64, 64]
    for used in (chat.root_client, embed.client._client):
        used.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_curl(manager: Manager) -> None:
    body = json.dumps({"model": "native", "messages": HI, "max_tokens": 3})
    plain = json.loads(curl(manager, "/v1/chat/completions", "-d", body))
    assert plain["usage"]["completion_tokens"] == 3
    body = json.dumps({"model": "native", "messages": HI, "max_tokens": 3, "stream": True})
    stream = curl(manager, "/v1/chat/completions", "-N", "-d", body)
    assert stream.endswith("data: [DONE]\n\n")
    head = curl(manager, "/v1/models", "-I")
    assert head.startswith("HTTP/1.1 200")
    assert "native" in curl(manager, "/v1/models")
