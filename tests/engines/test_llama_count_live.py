"""A real llama.cpp server counts what it will be sent: the same figure as in the `usage` of its answer."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from context_talks import call, chat_of, say
from reconciler.core.launch import LaunchSpec
from reconciler.engines import registry
from reconciler.engines.base import Readiness
from reconciler.gateway.context import Budget, early, estimate, fit
from reconciler.gateway.context.text import CHAT, COMPLETION, COMPLETIONS, MESSAGES, RESPONSES, extent_of
from reconciler.gateway.errors import ApiError
from reconciler.manifest.applied import Overflow
from support import free_port, healthy, wait_for
from tiny_gguf import write_llama

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.anyio, pytest.mark.engine]

ENGINE = registry.get("llama.cpp")
CONTEXT = 1024
#: What the gateway adds to every request: the server asks for a key.
OWN = {"authorization": "Bearer own"}
PARAMETERS = {"type": "object", "properties": {"at": {"type": "string", "description": "a place"}}}
FUNCTION = {"name": "look", "description": "looks at a place", "parameters": PARAMETERS}
TALK = [say("system", "Be brief."), say("user", "Straße, 中文, 😀, <|im_start|> and plain words")]
CALLED = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
USED = [
    {"role": "assistant", "content": None, "tool_calls": [CALLED]},
    {"role": "tool", "tool_call_id": "a", "content": "it rains"},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LaunchSpec, str]]:
    folder = tmp_path_factory.mktemp("count")
    weights = write_llama(folder / "model.gguf")
    spec = LaunchSpec(
        "m",
        "llama.cpp",
        weights=str(weights),
        context_tokens=CONTEXT,
        cwd=str(folder),
        args=("--api-key", "own,other"),
    )
    port = free_port()
    command = ENGINE.command(spec, port)
    with (folder / "log").open("wb") as out:
        env = {**os.environ, **command.env}
        process = subprocess.Popen(command.argv, cwd=command.cwd, env=env, stdout=out, stderr=out)
    try:
        wait_for(lambda: healthy(port), 30, "the server to be healthy")
        yield spec, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(30)


class Asked:
    """The counter the gateway makes of an engine, a server and a client."""

    def __init__(self, server: tuple[LaunchSpec, str], client: httpx.AsyncClient) -> None:
        self.spec, self.url = server
        self.client = client

    async def __call__(self, path: str, document: Mapping[str, Any]) -> int | None:
        return await ENGINE.count_tokens(self.spec, self.url, path, document, self.client)

    async def send(self, path: str, document: Mapping[str, Any]) -> httpx.Response:
        return await self.client.post(self.url + path, json=dict(document), headers=OWN)


def used(path: str, answer: dict[str, Any]) -> int:
    """Return the prompt tokens an answer says it had; Anthropic's and llama.cpp's own leave out the cached ones."""
    if path == COMPLETION:
        return int(answer["timings"]["prompt_n"]) + int(answer["timings"].get("cache_n", 0))
    usage: dict[str, int] = answer["usage"]
    if path == MESSAGES:
        return usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
    return usage["input_tokens" if path == RESPONSES else "prompt_tokens"]


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (CHAT, {"messages": TALK, "max_tokens": 1}),
        (CHAT, {"messages": TALK, "tools": [{"type": "function", "function": FUNCTION}], "max_tokens": 1}),
        (CHAT, {"messages": [*TALK, *USED, say("user", "and now")], "max_tokens": 1}),
        (COMPLETIONS, {"prompt": "Straße, <|im_start|> and words", "max_tokens": 1}),
        (COMPLETIONS, {"prompt": [1, 5, 7], "max_tokens": 1}),
        (COMPLETION, {"prompt": "Straße, <|im_start|> and words", "n_predict": 1}),
        (COMPLETION, {"prompt": [5, "and words"], "n_predict": 1}),
        (RESPONSES, {"input": "Straße and words", "instructions": "Be brief.", "max_output_tokens": 1}),
        (MESSAGES, {"messages": TALK[1:], "system": "Be brief.", "max_tokens": 1}),
    ],
)
async def test_the_count_is_what_the_answer_says_it_took(
    server: tuple[LaunchSpec, str], path: str, document: dict[str, Any]
) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        asked = Asked(server, client)
        counted = await asked(path, document)
        answer = await asked.send(path, document)
    assert answer.status_code == 200, answer.text
    assert counted == used(path, answer.json())
    # A vocabulary of bytes is the worst there is: the upper estimate holds even here.
    assert estimate.lower(path, document) <= counted <= estimate.upper(extent_of(path, document))


async def test_the_gateway_refuses_exactly_what_the_server_would(server: tuple[LaunchSpec, str]) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        asked = Asked(server, client)
        empty = await asked(CHAT, {"messages": [say("user", "")]})
        assert empty is not None
        for length, fits in ((CONTEXT - empty - 1, True), (CONTEXT - empty, False)):
            document = {"messages": [say("user", "x" * length)]}
            answer = await asked.send(CHAT, {**document, "max_tokens": 1})
            assert (answer.status_code == 200) == fits
            if fits:
                assert (await fit(call(document), Budget(CONTEXT), asked)).headers == []
            else:
                with pytest.raises(ApiError, match=f"{CONTEXT} in the prompt"):
                    await fit(call(document), Budget(CONTEXT), asked)


async def test_a_trimmed_conversation_is_answered(server: tuple[LaunchSpec, str]) -> None:
    document = {**chat_of(30, words=10), "max_tokens": 200}
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        asked = Asked(server, client)
        assert (await asked.send(CHAT, document)).status_code == 400
        fitted = await fit(call(document), Budget(CONTEXT, Overflow.TRIM), asked)
        assert b"trimmed" in fitted.headers[0][1]
        answer = await client.post(asked.url + CHAT, content=bytes(fitted.call.body), headers=OWN)
    assert answer.status_code == 200
    assert CONTEXT // 2 < answer.json()["usage"]["prompt_tokens"] <= CONTEXT - 200


async def test_no_request_changes_what_the_server_was_started_with(server: tuple[LaunchSpec, str]) -> None:
    wishes = {
        "n_ctx": 64,
        "num_ctx": 64,
        "ctx_size": 64,
        "context_length": 64,
        "n_gpu_layers": 9,
        "n_batch": 1,
        "cache_type_k": "q8_0",
        "n_parallel": 8,
        "options": {"num_ctx": 64},
        "model": "/etc/passwd",
    }
    document = {"messages": [say("user", "x" * 300)], "max_tokens": 1}
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        asked = Asked(server, client)
        before = (await client.get(asked.url + "/slots", headers=OWN)).json()
        plain = await asked.send(CHAT, document)
        odd = await asked.send(CHAT, {**document, **wishes})
        after = (await client.get(asked.url + "/slots", headers=OWN)).json()
        assert odd.json()["usage"]["prompt_tokens"] == plain.json()["usage"]["prompt_tokens"]
        assert [slot["n_ctx"] for slot in before] == [slot["n_ctx"] for slot in after] == [CONTEXT]
        assert await asked(CHAT, {**document, **wishes}) == await asked(CHAT, document)
    # Nor does it change the budget here.
    assert not early(call({**document, **wishes}), Budget(400))


async def test_the_probe_is_let_in_with_the_servers_own_key_only(server: tuple[LaunchSpec, str]) -> None:
    spec, url = server
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        assert (await ENGINE.probe(spec, url, client)).readiness is Readiness.READY
        found = await ENGINE.probe(replace(spec, args=()), url, client)
    assert (found.readiness, "--api-key" in found.detail) == (Readiness.FAILED, True)
