"""The head of an answer as bytes, and what it says of the body that follows."""

import time
from collections.abc import Iterable, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple

#: Bytes that no header may hold: all control characters but the tab (RFC 9110, 5.5).
_CONTROL: Final = bytes(range(0x09)) + bytes(range(0x0A, 0x20)) + b"\x7f"
#: What a name is made of (RFC 9110, 5.6.2), in lower case.
_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
#: Names that were looked at and found to be such, in lower case, and how many of them are remembered.
_known: set[bytes] = set()
_REMEMBERED: Final = 512
_CLOSE: Final = b"connection: close\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
#: Statuses whose answers have no body, whatever they say of one. (A 304 tells the length of what was not sent.)
BODILESS: Final = frozenset({204, 304})
_UNFRAMED: Final = {
    204: frozenset({b"content-length", b"transfer-encoding"}),
    304: frozenset({b"transfer-encoding"}),
}


class Head(NamedTuple):
    """One head, and how its body is framed."""

    data: bytes
    #: Bytes of the body; None = it comes in chunks, or ends with the connection.
    length: int | None
    #: Whether the connection may carry another answer.
    keep_alive: bool


def head_of(
    status: int,
    headers: Sequence[tuple[bytes, bytes]],
    *,
    head_only: bool = False,
    keep_alive: bool = True,
    chunks: bool = True,
) -> Head:
    """Return the head of an answer; `Date`, and what is missing of the framing, is added.

    `head_only`: the request was a HEAD. `chunks`: whether the client knows them; one of HTTP/1.0 does not (RFC 9112,
    6.1). Raises `ValueError` for a header that would end before its end.
    """
    if status in BODILESS:
        head_only = True
        headers = [header for header in headers if header[0].lower() not in _UNFRAMED[status]]
    elif not chunks:
        headers = [header for header in headers if header[0].lower() != b"transfer-encoding"]
    names = dict(headers)
    if not _known.issuperset(names):
        headers = [(_name(name), value) for name, value in headers]
        names = dict(headers)
    lines = [_status_line(status)]
    lines += [b"%b: %b\r\n" % header for header in headers]
    chunked = b"transfer-encoding" in names and (b"transfer-encoding", b"chunked") in _lower(headers)
    length = int(names[b"content-length"]) if b"content-length" in names and not chunked else None
    closing = b"connection" in names and _closes(headers)
    boundless = length is None and not chunked and not head_only
    keep_alive = keep_alive and (chunks or not boundless)
    if not keep_alive and not closing:
        lines.append(_CLOSE)
    if boundless and chunks:
        lines.append(_CHUNKED)
    lines.append(_date_and_end(int(time.time())))
    data = b"".join(lines)
    # Every line holds two such bytes, its own end (the last one closes the head, too): one more is not ours.
    if len(data) - len(data.translate(None, _CONTROL)) != 2 * len(lines) + 2:
        raise ValueError("a header holds a control character")
    open_end = boundless or (chunked and not head_only)
    return Head(data, None if open_end else length or 0, keep_alive and not closing)


@lru_cache(maxsize=600)
def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


def _name(name: bytes) -> bytes:
    """Return a header's name in lower case; raise `ValueError` if it is none."""
    lower = name.lower()
    if not lower or lower.translate(None, _TOKEN):
        raise ValueError(f"{name[:100]!r} is no name of a header")
    if len(_known) < _REMEMBERED:
        _known.add(lower)
    return lower


def _lower(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value.lower()) for name, value in headers]


def _closes(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    listed = [value for name, value in _lower(headers) if name == b"connection"]
    return b"close" in {token.strip() for token in b",".join(listed).split(b",")}


@lru_cache(maxsize=1)
def _date_and_end(second: int) -> bytes:
    return b"date: " + formatdate(second, usegmt=True).encode() + b"\r\n\r\n"
