"""Whole answers and errors in Anthropic's shape, and Anthropic's own client reading them."""

import json
import math
from typing import Any

import pytest
from anthropic.types import ErrorResponse, Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from messages_streams import EVENTS, USAGE, call, chunk, events, last_piece, sse, translate
from reconciler.gateway.errors import ApiError
from reconciler.gateway.messages import MessagesTransform, counted, error_body, from_chat, upstream_headers

JSON = dict[str, Any]
PLAIN = [(b"content-type", b"application/json"), (b"content-length", b"12"), (b"x-own", b"1")]


def answer(finish: str = "stop", usage: object = None, **message: object) -> JSON:
    """Return a chat completion."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return {"id": "chatcmpl-9a", "object": "chat.completion", "choices": [choice], "usage": usage or USAGE}


def tool(arguments: object, name: str = "add") -> JSON:
    """Return a tool call."""
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_whole_answer() -> None:
    made = from_chat(
        answer("tool_calls", content="I add.", reasoning_content="hm", tool_calls=[tool('{"a": 1}')]), "desk"
    )
    assert made == {
        "id": "msg_9a",
        "type": "message",
        "role": "assistant",
        "model": "desk",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "I add."},
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 4,
        },
    }
    assert Message.model_validate(made, strict=True).to_dict() == made


ANSWERS: list[tuple[JSON, list[JSON], str]] = [
    (answer(content="Hi"), [{"type": "text", "text": "Hi"}], "end_turn"),
    (answer("length", content="Hi"), [{"type": "text", "text": "Hi"}], "max_tokens"),
    (answer("content_filter", content=None), [], "refusal"),
    (answer(content=None, refusal="No."), [{"type": "text", "text": "No."}], "refusal"),
    (answer(content=[{"type": "text", "text": "Hi"}]), [{"type": "text", "text": "Hi"}], "end_turn"),
    (
        answer(content="", tool_calls=[tool("")]),
        [{"type": "tool_use", "id": "c1", "name": "add", "input": {}}],
        "tool_use",
    ),
    (
        answer("length", content="", tool_calls=[tool('{"a": "cut of')]),
        [{"type": "tool_use", "id": "c1", "name": "add", "input": {"unparsed_arguments": '{"a": "cut of'}}],
        "max_tokens",
    ),
    (
        answer(content="", tool_calls=[tool({"a": 1}), tool('{"a": NaN}'), tool('{"a": 1e999}')]),
        [
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"unparsed_arguments": '{"a": NaN}'}},
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"unparsed_arguments": '{"a": 1e999}'}},
        ],
        "tool_use",
    ),
    (
        answer(content="", reasoning="hm"),
        [{"type": "thinking", "thinking": "hm", "signature": ""}],
        "end_turn",
    ),
]


@pytest.mark.parametrize(("given", "content", "reason"), ANSWERS)
def test_answers(given: JSON, content: list[JSON], reason: str) -> None:
    made = from_chat(given, "desk")
    assert (made["content"], made["stop_reason"]) == (content, reason)
    Message.model_validate(made, strict=True)


@pytest.mark.parametrize(
    "given", [answer(content="Hi"), answer("tool_calls", content="", tool_calls=[tool('{"a": 1}')])]
)
def test_an_engine_that_does_not_stream_is_streamed(given: JSON) -> None:
    made = MessagesTransform("desk", stream=True)
    assert made.head(200, PLAIN) == [(b"x-own", b"1"), (b"content-type", b"text/event-stream")]
    data = made.feed(json.dumps(given).encode()) + made.finish()
    whole = from_chat(given, "desk")
    assert events(data)[0]["message"]["id"] == whole["id"]
    assert events(data)[-2]["delta"]["stop_reason"] == whole["stop_reason"]
    assert events(data)[-2]["usage"] == whole["usage"]
    assert events(data)[-1] == {"type": "message_stop"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[{"text":"x"}]}', b"[" * 100_000]
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_none(body: bytes, stream: bool) -> None:
    made = MessagesTransform("desk", stream=stream)
    made.head(200, PLAIN)
    made.feed(body)
    if stream:
        assert [e["error"]["code"] for e in events(made.finish())] == ["upstream_error"]
        return
    with pytest.raises(ApiError) as caught:
        made.finish()
    assert (caught.value.status, caught.value.code) == (502, "upstream_error")


def status_of(body: bytes) -> int:
    """Return 200 for an answer that is translated, else the status of the error."""
    made = MessagesTransform("desk", stream=False)
    made.head(200, PLAIN)
    made.feed(body)
    try:
        return 200 if json.loads(made.finish())["stop_reason"] == "tool_use" else 0
    except ApiError as error:
        return error.status


def test_an_answer_of_any_depth_is_translated_or_an_error() -> None:
    seen = []
    for depth in (10, *range(900, 1000), 5000):
        deep = '{"a":' * depth + "1" + "}" * depth
        parsed = json.dumps(answer(content="", tool_calls=[tool("ARGS")])).replace('"ARGS"', deep)
        as_text = json.dumps(answer(content="", tool_calls=[tool(deep)]))
        seen.append((status_of(parsed.encode()), status_of(as_text.encode())))
    assert seen[0] == (200, 200)
    assert seen[-1] == (502, 200)  # arguments that cannot be read are passed on as text
    assert {status for pair in seen for status in pair} == {200, 502}


def test_a_whole_answer_in_pieces_and_its_limit() -> None:
    body = json.dumps(answer(content="Hi")).encode()
    made = MessagesTransform("desk", stream=False, limit=len(body))
    assert made.head(200, PLAIN) == [(b"x-own", b"1"), (b"content-type", b"application/json")]
    assert made.feed(body[:9]) + made.feed(body[9:]) == b""
    assert json.loads(made.finish()) == from_chat(answer(content="Hi"), "desk")
    with pytest.raises(ApiError, match="more than"):
        made.feed(b" ")


def test_a_compressed_answer_is_refused() -> None:
    with pytest.raises(ApiError, match="compressed"):
        MessagesTransform("desk", stream=False).head(200, [*PLAIN, (b"Content-Encoding", b"gzip")])


ENGINE_ERRORS: list[tuple[int, bytes, tuple[str, str, str]]] = [
    (
        400,
        b'{"error":{"code":400,"message":"too big","type":"exceed_context_size_error"}}',
        ("invalid_request_error", "exceed_context_size_error", "prompt is too long: too big"),
    ),
    (429, b'{"error":{"message":"slow","code":"busy"}}', ("rate_limit_error", "busy", "slow")),
    (404, b'{"error":"no model"}', ("not_found_error", "upstream_error", "no model")),
    (422, b'{"detail":[{"loc":["x"]}]}', ("invalid_request_error", "upstream_error", '[{"loc": ["x"]}]')),
    (400, b'{"object":"error","message":"bad"}', ("invalid_request_error", "upstream_error", "bad")),
    (502, b"<h1>Bad</h1>", ("api_error", "upstream_error", "<h1>Bad</h1>")),
    (503, b"", ("overloaded_error", "upstream_error", "the model's server answered 503 and said nothing")),
    (500, b"[1]", ("api_error", "upstream_error", "[1]")),
]


@pytest.mark.parametrize(("status", "body", "expected"), ENGINE_ERRORS)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_an_engine(status: int, body: bytes, expected: tuple[str, str, str], stream: bool) -> None:
    made = MessagesTransform("desk", stream=stream)
    assert (b"content-type", b"application/json") in made.head(status, [(b"content-type", b"text/html")])
    made.feed(body)
    value = json.loads(made.finish())
    error = value["error"]
    assert (value["type"], error["type"], error["code"], error["message"]) == ("error", *expected)


TYPES = [
    (400, "invalid_request_error"),
    (401, "authentication_error"),
    (403, "permission_error"),
    (404, "not_found_error"),
    (405, "invalid_request_error"),
    (409, "conflict_error"),
    (413, "request_too_large"),
    (429, "rate_limit_error"),
    (500, "api_error"),
    (502, "api_error"),
    (503, "overloaded_error"),
    (504, "timeout_error"),
    (507, "api_error"),
    (529, "overloaded_error"),
]


@pytest.mark.parametrize(("status", "kind"), TYPES)
def test_types_of_errors(status: int, kind: str) -> None:
    body = error_body(status, "some_code", "words")
    assert body == {"type": "error", "error": {"type": kind, "message": "words", "code": "some_code"}}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 504])
def test_the_client_knows_the_shape_of_an_error(status: int) -> None:
    ErrorResponse.model_validate(error_body(status, "c", "m"))


def test_agents_learn_that_a_prompt_is_too_long() -> None:
    body = error_body(400, "context_length_exceeded", "9000 tokens, 8192 fit")
    assert body["error"]["message"] == "prompt is too long: 9000 tokens, 8192 fit"


def test_tokens_that_make_no_sense_count_as_none() -> None:
    odd = {"prompt_tokens": -1, "completion_tokens": None, "prompt_tokens_details": {"cached_tokens": 99}}
    assert set(from_chat(answer(content="", usage=odd), "m")["usage"].values()) == {0}
    huge = {"prompt_tokens": math.inf, "completion_tokens": True}
    assert set(from_chat(answer(content="", usage=huge), "m")["usage"].values()) == {0}


def test_every_event_is_one_the_client_knows() -> None:
    stream = sse(
        chunk(reasoning_content="hm"),
        chunk(content="Hi"),
        call(0, name="add", call_id="c0", args="{}"),
        chunk(finish="tool_calls"),
        last_piece(),
    )
    known: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    seen = [known.validate_python(e).type for e in events(translate(stream)) if e["type"] != "ping"]
    assert set(seen) == {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    }


def test_headers_for_the_engine() -> None:
    given = [
        (b"accept-encoding", b"gzip"),
        (b"accept", b"text/event-stream"),
        (b"content-type", b"text/plain"),
        (b"anthropic-version", b"2023-06-01"),
        (b"anthropic-beta", b"x"),
        (b"user-agent", b"sdk"),
    ]
    assert upstream_headers(given) == [
        (b"user-agent", b"sdk"),
        (b"content-type", b"application/json"),
        (b"accept-encoding", b"identity"),
    ]


def test_the_answer_of_count_tokens() -> None:
    assert counted(7) == {"input_tokens": 7}
    assert MessagesTransform("m", stream=True).head(200, EVENTS) == [(b"content-type", b"text/event-stream")]
