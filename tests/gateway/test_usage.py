"""The tokens that engines tell of at the ends of their answers, and that nothing else is taken for them."""

import json

import pytest

from gateway_rig import receive_until, request, rig, scripted
from reconciler.gateway.usage import BYTES, PIECES, Edges

TIMINGS = {"cache_n": 5, "prompt_n": 7, "prompt_ms": 1.5, "predicted_n": 9, "predicted_ms": 30.0}
USAGE = {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21}


def event(value: object) -> bytes:
    """Return one event of a stream."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def words(text: str, **more: object) -> bytes:
    """Return a piece of a streamed chat answer."""
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more})


LAST = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
DONE = b"data: [DONE]\n\n"
SAYS = {"choices": [{"message": {"content": 'say "usage": {"prompt_tokens": 1000} and "timings": {}'}}]}
VECTORS = [{"embedding": [0.125] * 2000, "index": 0}]
CASES = {
    "a body": ([json.dumps({**SAYS, "usage": USAGE}).encode()], (12, 9)),
    "a body without spaces": (
        [json.dumps({**SAYS, "usage": USAGE}, separators=(",", ":")).encode()],
        (12, 9),
    ),
    "a long body": ([json.dumps({"choices": ["x" * 100_000], "usage": USAGE}).encode()], (12, 9)),
    "a body with both": ([json.dumps({**SAYS, "usage": USAGE, "timings": TIMINGS}).encode()], (12, 9)),
    "the last event": ([words("hi", usage=None), event(LAST), event({"usage": USAGE}), DONE], (12, 9)),
    "an event in two pieces": (
        [words("hi"), event({"usage": USAGE})[:20], event({"usage": USAGE})[20:]],
        (12, 9),
    ),
    "counted as it comes": (
        [words("hi", usage=USAGE | {"completion_tokens": 1}), event({"usage": USAGE})],
        (12, 9),
    ),
    "timings alone": ([words("hi"), event({**LAST, "timings": TIMINGS}), DONE], (12, 9)),
    "timings that say nothing of the cache": (
        [event({"timings": {"prompt_n": 7, "predicted_n": 9}})],
        (None, 9),
    ),
    "a responses stream": (
        [event({"response": {"output": [], "usage": {"input_tokens": 12, "output_tokens": 9}}})],
        (12, 9),
    ),
    "a messages stream": (
        [
            event(
                {"message": {"usage": {"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 0}}}
            ),
            *[words("x" * 1000)] * (PIECES + 2),
            event({"type": "message_delta", "usage": {"output_tokens": 9}}),
        ],
        (12, 9),
    ),
    "vectors before it": (
        [json.dumps({"data": VECTORS, "usage": {"prompt_tokens": 12, "total_tokens": 12}}).encode()],
        (12, None),
    ),
    "vectors behind it": (
        [json.dumps({"usage": {"prompt_tokens": 12, "total_tokens": 12}, "data": VECTORS}).encode()],
        (12, None),
    ),
    "an empty answer of none": (
        [json.dumps({"usage": {"prompt_tokens": 12, "completion_tokens": 0}}).encode()],
        (12, 0),
    ),
    "nothing": ([b""], None),
    "no word of it": ([json.dumps(SAYS).encode()], None),
    "null": ([words("hi", usage=None), DONE], None),
    "no numbers": (
        [json.dumps({"usage": {"prompt_tokens": "12", "completion_tokens": True}}).encode()],
        None,
    ),
    "no possible number": (
        [json.dumps({"usage": {"prompt_tokens": -1, "completion_tokens": 10**12}}).encode()],
        None,
    ),
    "cut off": ([b'{"choices": [], "usage": {"prompt_tokens": 12, "completion_tok'], None),
    "too deep": ([b'{"usage": {"prompt_tokens": ' + b"[" * 3000], None),
    "not text": ([bytes(range(256)) * 40 + b'"usage": {\xff\xfe'], None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_tokens_are_those_the_engine_tells(case: str) -> None:
    pieces, tokens = CASES[case]
    edges = Edges()
    for piece in pieces:
        edges.add(piece)
    assert edges.tokens() == tokens


def test_no_more_of_an_answer_is_held_than_its_edges() -> None:
    edges = Edges()
    for _ in range(100):
        edges.add(bytes(1_000_000))
    held = len(edges._first) + sum(map(len, edges._last))
    assert held <= BYTES * (PIECES + 1)


@pytest.mark.anyio
@pytest.mark.parametrize("streams", [False, True])
async def test_the_tokens_of_a_chat_are_on_the_record(streams: bool) -> None:
    pieces = [words("a"), words("b"), event({**LAST, "timings": TIMINGS}), DONE]
    body = json.dumps({**SAYS, "usage": USAGE}).encode()
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        asked = json.dumps({"model": "chat", "messages": [], "stream": streams}).encode()
        async with await r.raw(request(asked)) as stream:
            got = await engine.next()
            if streams:
                await got.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                for piece in pieces:
                    await got.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await got.write(b"0\r\n\r\n")
            else:
                await got.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            await receive_until(stream, b"[DONE]" if streams else b"}}")
        await r.idle()
    [ended] = r.book.taken()[1]
    assert (ended.outcome, ended.tokens) == ("ok", (12, 9))


@pytest.mark.anyio
async def test_an_engine_that_counts_nothing_leaves_them_unknown() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(json.dumps({"model": "chat", "messages": []}).encode())) as stream:
            await (await engine.next()).write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            await receive_until(stream, b"{}")
        await r.idle()
    [ended] = r.book.taken()[1]
    assert (ended.outcome, ended.tokens) == ("ok", None)
