"""How llama.cpp is asked to count: by the path of the request, by older means, or not at all."""

import json
from typing import Any

import httpx
import pytest

from reconciler.engines.llama import routes as llama_routes

pytestmark = pytest.mark.anyio

TALK: dict[str, object] = {"messages": [{"role": "user", "content": "hi"}]}


async def count(path: str, body: dict[str, object], answers: dict[str, Any]) -> tuple[int | None, list[str]]:
    """Ask a server that answers only these paths; return the count and what it was asked for."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        answer = answers.get(request.url.path)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(json.loads(request.content))
        return httpx.Response(404 if answer is None else 200, json=answer)

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
        return await llama_routes.count_tokens("http://engine", path, body, client), asked


def letters(asked: dict[str, Any]) -> dict[str, Any]:
    assert asked["add_special"] is True
    return {"tokens": list(range(1 + len(asked["content"])))}


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/v1/chat/completions", "/v1/chat/completions/input_tokens"),
        ("/v1/responses", "/v1/responses/input_tokens"),
        ("/v1/messages", "/v1/messages/count_tokens"),
        ("/v1/messages/count_tokens", "/v1/messages/count_tokens"),
    ],
)
async def test_each_kind_of_request_has_its_counter(path: str, where: str) -> None:
    assert await count(path, TALK, {where: {"input_tokens": 7}}) == (7, [where])


async def test_an_older_server_renders_and_counts_in_two_steps() -> None:
    answers = {"/apply-template": {"prompt": "<user>hi"}, "/tokenize": letters}
    assert (await count("/v1/chat/completions", TALK, answers))[0] == 9


@pytest.mark.parametrize(
    ("prompt", "tokens", "asked"),
    [
        ("abc", 4, 1),
        (["abc", "abcdef", "a"], 7, 3),
        ([1, 2, 3, 4], 4, 0),
        ([[1, 2], [1, 2, 3]], 3, 0),
        ([5, "abc"], 3, 1),
        (["a"] * 17, None, 0),
        ([], None, 0),
        (None, None, 0),
        ({"a": 1}, None, 0),
    ],
)
async def test_a_completion_is_its_longest_prompt(prompt: object, tokens: int | None, asked: int) -> None:
    for path in ("/v1/completions", "/completion"):
        counted, paths = await count(path, {"prompt": prompt}, {"/tokenize": letters})
        assert (counted, len(paths)) == (tokens, asked)


async def test_of_a_prompt_with_images_beside_it_the_text_is_counted() -> None:
    prompt = {"prompt_string": "abc", "multimodal_data": ["AAAA"]}
    assert await count("/completion", {"prompt": prompt}, {"/tokenize": letters}) == (4, ["/tokenize"])


async def test_a_middle_is_counted_with_all_that_is_around_it() -> None:
    def plain(asked: dict[str, Any]) -> dict[str, Any]:
        assert not asked.get("parse_special")  # the default: a mark in a program is text
        return {"tokens": asked["content"].split()}

    body: dict[str, object] = {
        "input_prefix": "a b",
        "input_suffix": "c",
        "prompt": "d",
        "input_extra": [{"filename": "f", "text": "g h"}, "odd"],
    }
    assert await count("/infill", body, {"/tokenize": plain}) == (7 + 8, ["/tokenize"])
    assert (await count("/infill", {"input_prefix": 5}, {"/tokenize": plain}))[0] is None


@pytest.mark.parametrize(
    "answer",
    [
        {"input_tokens": "7"},
        {},
        [],
        "no",
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("odd"),
    ],
)
async def test_a_dead_or_strange_server_is_no_error(answer: Any) -> None:
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/completions"):
        every = dict.fromkeys(
            [
                "/v1/chat/completions/input_tokens",
                "/v1/messages/count_tokens",
                "/apply-template",
                "/tokenize",
            ],
            answer,
        )
        assert (await count(path, {**TALK, "prompt": "x"}, every))[0] is None


async def test_what_has_no_prompt_is_not_asked_for() -> None:
    assert await count("/v1/embeddings", {"input": "x"}, {}) == (None, [])


async def test_half_a_surrogate_pair_can_be_asked_about() -> None:
    where = "/v1/chat/completions/input_tokens"
    body: dict[str, object] = {"messages": [{"role": "user", "content": "\ud800"}]}
    assert (await count("/v1/chat/completions", body, {where: {"input_tokens": 1}}))[0] == 1
