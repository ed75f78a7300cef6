"""Streams of chat completions as engines send them, and the events of messages read back."""

import itertools
import json
from typing import Any

from reconciler.gateway.messages import MessagesTransform

Chunk = dict[str, Any]
EVENTS = [(b"content-type", b"text/event-stream")]
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}


def chunk(finish: str | None = None, **delta: object) -> Chunk:
    """Return one piece of a streamed answer."""
    return {"id": "chatcmpl-7f", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(index: int, *, name: str | None = None, args: str = "", call_id: str | None = None) -> Chunk:
    """Return a piece that holds a piece of one tool call."""
    function = {"name": name, "arguments": args} if name else {"arguments": args}
    return chunk(tool_calls=[{"index": index, "id": call_id, "function": function}])


def last_piece(usage: object = None) -> Chunk:
    """Return the piece without a choice that tells what was used."""
    return {"id": "chatcmpl-7f", "choices": [], "usage": usage or USAGE}


def sse(*chunks: Chunk, done: bool = True, end: str = "\n") -> bytes:
    """Return the pieces as a stream."""
    lines = [json.dumps(c, ensure_ascii=False) for c in chunks] + (["[DONE]"] if done else [])
    return "".join(f"data: {line}{end}{end}" for line in lines).encode()


def translate(data: bytes, cuts: tuple[int, ...] = (), status: int = 200) -> bytes:
    """Return what the client gets for a stream that arrives cut at these places."""
    made = MessagesTransform("desk", stream=True)
    made.head(status, EVENTS)
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    return b"".join(made.feed(piece) for piece in pieces) + made.finish()


def events(data: bytes) -> list[Chunk]:
    """Return the events of a message; each says its type twice, and both must agree."""
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        name, text = block.split("\n")
        value = json.loads(text.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        found.append(value)
    return found


def kinds(data: bytes) -> list[str]:
    """Return the types of the events, pings left out."""
    return [e["type"] for e in events(data) if e["type"] != "ping"]


def blocks(data: bytes) -> list[Chunk]:
    """Return the content blocks put together; fails unless they come one after the other."""
    made: list[Chunk] = []
    is_open = False
    for event in events(data):
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(made)
            made.append({**event["content_block"], "pieces": []})
            is_open = True
        elif event["type"] == "content_block_delta":
            assert is_open
            assert event["index"] == len(made) - 1
            made[-1]["pieces"].append(next(v for k, v in sorted(event["delta"].items()) if k != "type"))
        elif event["type"] == "content_block_stop":
            assert is_open
            assert event["index"] == len(made) - 1
            is_open = False
    assert not is_open or kinds(data)[-1] == "error"
    return made


def shown(data: bytes) -> list[tuple[str, str]]:
    """Return kind and whole text of each block."""
    return [(b["type"], "".join(b["pieces"])) for b in blocks(data)]
