"""The body of a request: with a length, or in chunks, and of a bounded size."""

from __future__ import annotations

from io import BufferedIOBase

from .errors import Refused
from .head import Head

#: Bytes of a body at most.
MOST = 256 << 20
_LONGEST_LINE = 256
_MOST_TRAILERS = 32


def read(head: Head, stream: BufferedIOBase) -> bytes:
    """Return the whole body. Raises Refused; the connection cannot be used again then."""
    codings, stated = head.values("transfer-encoding"), head.values("content-length")
    if codings:
        if stated or [coding.lower() for coding in codings] != ["chunked"]:
            raise Refused("a body comes with a length or in chunks, nothing else")
        return _chunks(stream)
    if not stated:
        return b""
    if len(set(stated)) > 1 or not (stated[0].isascii() and stated[0].isdecimal()):
        raise Refused("Content-Length must be one number")
    length = int(stated[0])
    _check(length)
    return _exactly(stream, length)


def _check(length: int) -> None:
    if length > MOST:
        raise Refused(f"the body is larger than {MOST >> 20} MiB", 413)


def _exactly(stream: BufferedIOBase, length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise Refused("the body ended early")
    return data


def _chunks(stream: BufferedIOBase) -> bytes:
    parts, total = [], 0
    while True:
        size = _line(stream).partition(b";")[0].strip()
        if not size or size.strip(b"0123456789abcdefABCDEF") or len(size) > 8:
            raise Refused("a chunk has no size")
        length = int(size, 16)
        if not length:
            break
        total += length
        _check(total)
        parts.append(_exactly(stream, length))
        if _line(stream):
            raise Refused("a chunk is longer than its size")
    for _ in range(_MOST_TRAILERS):
        if not _line(stream):
            return b"".join(parts)
    raise Refused("too many lines after the last chunk")


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(_LONGEST_LINE)
    if not line.endswith(b"\r\n"):
        raise Refused("a line of a chunked body is too long, or was cut")
    return line[:-2]
