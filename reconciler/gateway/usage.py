"""The tokens of an answer, as its engine counts them: looked for in the bytes it begins and ends with.

Engines put `usage` behind what they answered (of embeddings some put it before), streams into one of the last events,
and llama.cpp its `timings`, which it sends unasked. Nothing else of an answer is looked at, and nothing of it before it
was passed on.
"""

import json
from collections import deque
from collections.abc import Mapping
from typing import Final

#: Bytes of each piece that are kept, and pieces: the last events of a stream come one by one.
BYTES: Final = 4096
PIECES: Final = 8
#: No request has more tokens; a number beyond is a mistake.
MOST: Final = 1_000_000_000
#: Tokens of the prompt and of the answer; None = the engine does not say.
Tokens = tuple[int | None, int | None]
_NOTHING: Final[Tokens] = (None, None)

_EMPTY: Final[Mapping[str, object]] = {}
_DECODER: Final = json.JSONDecoder()


class Edges:
    """The bytes that an answer begins with, and those it ends with; no more of it is held."""

    __slots__ = ("_first", "_last")

    def __init__(self) -> None:
        self._first = b""
        self._last: deque[bytes] = deque(maxlen=PIECES)

    def add(self, piece: bytes) -> None:
        """Take note of the next piece, which was passed on."""
        if not self._first:
            self._first = piece[:BYTES]
        self._last.append(piece[-BYTES:])

    def tokens(self) -> Tokens | None:
        """Return the tokens that the engine told; None = it told none."""
        last = b"".join(self._last)
        found = _told(last[-BYTES:])
        if found[0] is None:
            # Anthropic's streams and some embeddings tell the prompt at the begin.
            found = _told(self._first)[0], found[1]
        return None if found == _NOTHING else found


def _told(data: bytes) -> Tokens:
    """Return what the last `usage` in a piece of an answer says, or else the last `timings`."""
    usage = _last_object(b'"usage"', data)
    prompt = _count(usage, "prompt_tokens")
    if prompt is None and usage:
        prompt = _whole_prompt(usage)
    output = _count(usage, "completion_tokens")
    if output is None:
        output = _count(usage, "output_tokens")
    if prompt is None or output is None:
        timings = _last_object(b'"timings"', data)
        # What came out of a cache counts: `prompt_n` alone is what had to be worked out.
        worked, cached = _count(timings, "prompt_n"), _count(timings, "cache_n")
        if prompt is None and worked is not None and cached is not None:
            prompt = worked + cached
        output = _count(timings, "predicted_n") if output is None else output
    return prompt, output


def _whole_prompt(usage: Mapping[str, object]) -> int | None:
    """Return `input_tokens`; Anthropic counts those that came out of a cache, or went into it, apart."""
    told = _count(usage, "input_tokens")
    if told is None:
        return None
    apart = (_count(usage, f"cache_{way}_input_tokens") or 0 for way in ("read", "creation"))
    return told + sum(apart)


def _last_object(key: bytes, data: bytes) -> Mapping[str, object]:
    """Return the last object that stands behind a key and is here as a whole; empty if none is."""
    end = len(data)
    while (at := data.rfind(key, 0, end)) >= 0:
        end = at
        begin = data.find(b"{", at)
        # Within a text the key's quotation marks are escaped; as a text it has no colon behind it.
        if begin < 0 or data[at - 1 : at] == b"\\" or data[at + len(key) : begin].strip() != b":":
            continue
        try:
            found, _ = _DECODER.raw_decode(data[begin : begin + BYTES].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return _EMPTY


def _count(said: Mapping[str, object], key: str) -> int | None:
    """Return a number of tokens, as far as it is one."""
    value = said.get(key)
    return value if type(value) is int and 0 <= value <= MOST else None
