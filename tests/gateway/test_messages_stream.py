"""Streamed chat answers become the events of a message, whatever pieces they arrive in."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages_streams import EVENTS, blocks, call, chunk, events, kinds, last_piece, shown, sse, translate
from reconciler.gateway.errors import ApiError
from reconciler.gateway.messages import MessagesTransform
from reconciler.gateway.messages.sse import Event, EventReader

THINK = [chunk(role="assistant", content=None), chunk(reasoning_content="hm"), chunk(reasoning_content=", ä")]
TEXT = [chunk(content="Hel"), chunk(content="lo \U0001f600"), chunk(content="")]
CALLS = [
    call(0, name="add", call_id="c0"),
    call(0, args='{"a":'),
    call(0, args=" 1}"),
    call(1, name="sub", call_id="c1", args="{}"),
]
ALL = sse(*THINK, *TEXT, *CALLS, chunk(finish="tool_calls"), last_piece())


def test_the_events_of_a_whole_answer() -> None:
    data = translate(ALL)
    start, ping, *middle, delta, stop = events(data)
    assert start["message"] == {
        "id": "msg_7f",
        "type": "message",
        "role": "assistant",
        "model": "desk",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    }
    assert ping == {"type": "ping"}
    assert [(e["type"], e["index"]) for e in middle] == [
        *[("content_block_start", 0), *[("content_block_delta", 0)] * 2, ("content_block_stop", 0)],
        *[("content_block_start", 1), *[("content_block_delta", 1)] * 2, ("content_block_stop", 1)],
        *[("content_block_start", 2), *[("content_block_delta", 2)] * 2, ("content_block_stop", 2)],
        *[("content_block_start", 3), ("content_block_delta", 3), ("content_block_stop", 3)],
    ]
    assert shown(data) == [
        ("thinking", "hm, ä"),
        ("text", "Hello \U0001f600"),
        ("tool_use", '{"a": 1}'),
        ("tool_use", "{}"),
    ]
    assert [(b["id"], b["name"]) for b in blocks(data)[2:]] == [("c0", "add"), ("c1", "sub")]
    assert delta == {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {
            "input_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 4,
        },
    }
    assert stop == {"type": "message_stop"}


def test_each_piece_is_passed_on_at_once() -> None:
    made = MessagesTransform("desk", stream=True)
    made.head(200, EVENTS)
    seen = [kinds(made.feed(sse(c, done=False))) for c in [*THINK[:2], *TEXT[:2], CALLS[0], CALLS[1]]]
    assert seen == [
        ["message_start"],
        ["content_block_start", "content_block_delta"],
        ["content_block_stop", "content_block_start", "content_block_delta"],
        ["content_block_delta"],
        ["content_block_stop", "content_block_start"],
        ["content_block_delta"],
    ]


ODD = b": a comment\r\n\r\n" + sse(*THINK, *TEXT, *CALLS, chunk(finish="stop"), end="\r\n")
CR = sse(chunk(content="ä\U0001f600"), chunk(finish="length"), end="\r")
BROKEN = sse(chunk(content="half"), done=False) + b'data: {"error":{"message":"m","type":"t"}}\n\ndata: x\n\n'


@given(st.data())
def test_any_chunking_gives_the_same_bytes(data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from([ALL, ODD, CR, BROKEN, ALL[:-40], b'data: {"id":"x"}\n\nnonsense']))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    assert translate(stream, tuple(cuts)) == translate(stream)


@pytest.mark.parametrize("stream", [ALL, ODD, CR, BROKEN])
def test_byte_by_byte(stream: bytes) -> None:
    assert translate(stream, tuple(range(1, len(stream)))) == translate(stream)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_garbage_ends_in_an_error_and_never_in_a_clean_end(junk: bytes, cuts: list[int]) -> None:
    data = translate(junk, tuple(min(cut, len(junk)) for cut in cuts))
    assert kinds(data)[-1] == "error"
    assert data == translate(junk)


PIECES = st.lists(
    st.one_of(
        st.builds(lambda t: chunk(content=t), st.text(max_size=5)),
        st.builds(lambda t: chunk(reasoning_content=t), st.text(max_size=5)),
        st.builds(lambda n: call(n, name=f"tool{n}", call_id=f"c{n}", args='{"x":'), st.integers(0, 2)),
        st.builds(lambda n: call(n, args="1}"), st.integers(0, 2)),
    ),
    max_size=12,
)


@given(PIECES)
def test_blocks_never_overlap_and_no_word_is_lost(pieces: list[dict[str, object]]) -> None:
    data = translate(sse(*pieces, chunk(finish="stop")))
    made = shown(data)  # checks that one block is open at a time
    if kinds(data)[-1] == "error":
        return
    deltas = [p["choices"][0]["delta"] for p in pieces]  # type: ignore[index]
    for kind, key in (("text", "content"), ("thinking", "reasoning_content")):
        assert "".join(t for k, t in made if k == kind) == "".join(d.get(key, "") for d in deltas)
    sent = [c["function"]["arguments"] for d in deltas for c in d.get("tool_calls", [])]
    assert sorted("".join(t for k, t in made if k == "tool_use")) == sorted("".join(sent))


def test_calls_that_arrive_interleaved_come_one_after_the_other() -> None:
    order = [
        call(0, name="add", call_id="c0"),
        call(1, name="sub", call_id="c1"),
        call(1, args='{"b":'),
        call(0, args='{"a":1}'),
        call(1, args="2}"),
        chunk(content="done"),
        chunk(finish="tool_calls"),
    ]
    assert shown(translate(sse(*order))) == [
        ("tool_use", '{"a":1}'),
        ("tool_use", '{"b":2}'),
        ("text", "done"),
    ]


def test_calls_that_all_have_the_same_number_are_told_apart_by_their_ids() -> None:
    order = [call(0, name="add", call_id="x", args="{}"), call(0, name="add", call_id="y", args="{}")]
    assert [b["id"] for b in blocks(translate(sse(*order, chunk(finish="stop"))))] == ["x", "y"]


def test_a_call_without_an_id_gets_one_and_parsed_arguments_become_text() -> None:
    whole = chunk(tool_calls=[{"function": {"name": "add", "arguments": {"a": 1}}}])
    [block] = blocks(translate(sse(whole, chunk(finish="stop"))))
    assert block["id"].startswith("toolu_")
    assert block["pieces"] == ['{"a": 1}']


ENDS = [
    ("stop", {}, "end_turn", None),
    ("length", {}, "max_tokens", None),
    ("content_filter", {}, "refusal", None),
    ("stop", {"stop_reason": "END"}, "stop_sequence", "END"),
    ("stop", {"matched_stop": "END"}, "stop_sequence", "END"),
    ("stop", {"stop_reason": 128001}, "end_turn", None),
]


@pytest.mark.parametrize(("finish", "more", "reason", "sequence"), ENDS)
def test_reasons_to_stop(finish: str, more: dict[str, object], reason: str, sequence: str | None) -> None:
    last = chunk(finish=finish)
    last["choices"][0] |= more
    delta = events(translate(sse(chunk(content="a"), last)))[-2]
    assert delta["delta"] == {"stop_reason": reason, "stop_sequence": sequence}


def test_a_model_that_declines() -> None:
    data = translate(sse(chunk(refusal="I will "), chunk(refusal="not."), chunk(finish="stop")))
    assert shown(data) == [("text", "I will not.")]
    assert events(data)[-2]["delta"]["stop_reason"] == "refusal"


def test_tokens_are_counted_by_pieces_where_the_engine_does_not_tell() -> None:
    made = MessagesTransform("desk", stream=True, input_tokens=17)
    made.head(200, EVENTS)
    data = made.feed(sse(chunk(content="a"), chunk(content="b"), chunk(finish="stop"))) + made.finish()
    assert events(data)[0]["message"]["usage"]["input_tokens"] == 17
    assert (events(data)[-2]["usage"]["input_tokens"], events(data)[-2]["usage"]["output_tokens"]) == (17, 2)


CUT = [
    ("no end", sse(chunk(content="a"), done=False), "middle of the answer"),
    ("nothing at all", b"", "middle of the answer"),
    ("half an event", sse(chunk(content="a"), done=False) + b'data: {"cho', "no JSON object"),
    ("not an object", b"data: [1]\n\n", "no JSON object"),
    ("a call without a name", sse(call(0, args="{}"), chunk(finish="tool_calls")), "without a name"),
]


@pytest.mark.parametrize(("stream", "words"), [c[1:] for c in CUT], ids=[c[0] for c in CUT])
def test_a_stream_that_is_not_whole_ends_with_an_error(stream: bytes, words: str) -> None:
    data = translate(stream)
    last = events(data)[-1]
    assert (last["error"]["type"], last["error"]["code"]) == ("api_error", "upstream_error")
    assert words in last["error"]["message"]
    assert "message_stop" not in kinds(data)
    assert "message_delta" not in kinds(data)


ERRORS = [
    ({"message": "busy", "type": "x", "code": 503}, ("overloaded_error", "x", "busy")),
    ({"message": "bad", "code": "odd", "status": 400}, ("invalid_request_error", "odd", "bad")),
    ("plain words", ("api_error", "upstream_error", "plain words")),
    ({"code": 7}, ("api_error", "upstream_error", "the model's server failed")),
]


@pytest.mark.parametrize(("error", "expected"), ERRORS)
def test_an_error_in_the_stream_is_passed_on_and_nothing_after_it(
    error: object, expected: tuple[str, str, str]
) -> None:
    data = translate(sse(chunk(content="a"), {"error": error}, chunk(content="b"), chunk(finish="stop")))
    assert kinds(data)[-2:] == ["content_block_delta", "error"]
    last = events(data)[-1]["error"]
    assert (last["type"], last["code"], last["message"]) == expected


def test_an_error_of_an_old_llama_server_has_a_field_of_its_own() -> None:
    data = translate(
        sse(chunk(content="a"), done=False) + b'error: {"code":500,"message":"slot","type":"s"}\n\n'
    )
    assert events(data)[-1]["error"] == {"type": "api_error", "code": "s", "message": "slot"}


def test_an_engine_that_said_why_it_stopped_is_done_without_the_last_line() -> None:
    assert kinds(translate(sse(chunk(content="a"), chunk(finish="stop"), done=False)))[-1] == "message_stop"
    assert kinds(translate(sse(chunk(content="a"), done=False) + b"data: [DONE]"))[-1] == "message_stop"


def test_an_error_of_ours_ends_the_stream_once() -> None:
    made = MessagesTransform("desk", stream=True)
    made.head(200, EVENTS)
    made.feed(sse(chunk(content="a"), done=False))
    last = made.fail(ApiError("model_stopped", "model 'desk' was stopped meanwhile"))
    assert [e["error"]["code"] for e in events(last)] == ["model_stopped"]
    assert made.fail(ApiError("model_stopped", "again")) + made.feed(ALL) + made.finish() == b""


def test_comments_keep_the_client_waiting() -> None:
    assert [e["type"] for e in events(translate(b": loading\n\n" + sse(chunk(finish="stop"))))][:2] == [
        "ping",
        "message_start",
    ]


def test_a_long_line_costs_its_length_once_and_has_a_limit() -> None:
    long = sse(chunk(content="x" * 700_000), chunk(finish="stop"))
    assert shown(translate(long, tuple(range(0, len(long), 100)))) == [("text", "x" * 700_000)]
    reader = EventReader(limit=100)
    assert list(reader.feed(b"data: " + b"x" * 90 + b"\n\n")) == [Event("x" * 90)]
    with pytest.raises(ApiError, match="longer than 100 bytes"):
        list(itertools.chain(reader.feed(b"data: " + b"x" * 60), reader.feed(b"x" * 60)))


def test_what_was_said_before_an_event_that_is_too_long_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.gateway.messages.transform.MAX_EVENT_BYTES", 500)
    data = translate(sse(chunk(content="a"), chunk(content="x" * 600)))
    assert shown(data) == [("text", "a")]
    assert kinds(data)[-1] == "error"


def test_events_of_several_lines_and_unknown_fields() -> None:
    data = b"event: x\nid: 1\ndata: {\ndata:}\n\nretry: 3\n\n: hi\n\ndata\n\n"
    assert list(EventReader().feed(data)) == [Event("{\n}"), Event(" hi", comment=True), Event("")]
