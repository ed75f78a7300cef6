"""Request bodies: whole, within a limit, and in memory that goes back to the system.

A large body gets pages of its own from the kernel instead of a place in the allocator's heap, which would keep
them; with its last reference they are gone. Together the large ones are bounded (`room`): what does not fit is not
read from its connection until there is room, so that the client's own kernel holds it.
"""

import codecs
import mmap
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final

import anyio
from starlette.types import Receive

from reconciler.gateway.body.room import LARGE, Pace, Room, Share
from reconciler.gateway.errors import ApiError

__all__ = ["LARGE", "Body", "ClientGoneError", "read_body"]

Headers = list[tuple[bytes, bytes]]
Buffer = bytes | bytearray | memoryview

#: Bytes of a piece in which a large body is handed on.
PIECE_BYTES: Final = 256 * 1024


class ClientGoneError(Exception):
    """The client closed its connection: nobody is there to be answered."""


@dataclass(slots=True)
class Body:
    """One body, and what it takes of the room: to be released when nobody needs it any more."""

    data: Buffer = b""
    share: Share | None = None

    @property
    def held(self) -> int:
        """How many bytes it takes of the room."""
        return self.share.held if self.share is not None else 0

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body piece by piece, and release it after the last: what was sent need not be kept."""
        for start in range(0, len(self.data), PIECE_BYTES):
            yield bytes(self.data[start : start + PIECE_BYTES])
        self.release()

    def release(self) -> None:
        """Give the room back; the bytes go with the last reference to them."""
        self.data = b""
        if self.share is not None:
            self.share.keep(0)


def joined(parts: list[Buffer]) -> bytes | memoryview:
    """Return one buffer with all the parts; a large one has pages of its own, as a large body has."""
    size = sum(map(len, parts))
    if size < LARGE:
        return b"".join(parts)
    pages, position = own_pages(size), 0
    for part in parts:
        pages[position : position + len(part)] = part
        position += len(part)
    return memoryview(pages).toreadonly()


def own_pages(size: int) -> mmap.mmap:
    """Return `size` zero bytes that are no part of the heap; pages that are not written cost nothing."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the value of `Content-Length`, or None."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


async def read_body(headers: Headers, receive: Receive, limit: int, room: Room, *, text: bool) -> Body:
    """Return the whole body, at most `limit` bytes; with `text` it must be UTF-8.

    Raises `ApiError` (413, 400, 503 without room) and `ClientGoneError`.
    """
    declared = declared_length(headers)
    if declared is not None and declared > limit:
        raise _too_large(headers, limit)
    if declared is not None and declared >= LARGE:
        return await _read_large([], receive, (declared, limit), room, text=text)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        if part:
            size += len(part)
            parts.append(part)
        if not message.get("more_body", False):
            break
        if size >= LARGE:
            return await _read_large(parts, receive, (limit, limit), room, text=text)
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return small_body(headers, data, limit, text=text)


def small_body(headers: Headers, data: bytes, limit: int, *, text: bool) -> Body:
    """Return a body that is here and not large, at most `limit` bytes; with `text` it must be UTF-8.

    Raises `ApiError` (413, 400).
    """
    if len(data) > limit:
        raise _too_large(headers, limit)
    if text and not data.isascii():
        _check_text(data, codecs.getincrementaldecoder("utf-8")(), final=True)
    return Body(data)


async def _read_large(
    parts: list[bytes], receive: Receive, sizes: tuple[int, int], room: Room, *, text: bool
) -> Body:
    """Read into pages of its own; `sizes` are the most bytes that may come and the limit."""
    most, limit = sizes
    share = room.share(most, limit)
    body = Body(b"", share)
    try:
        pages = own_pages(most)
        decoder = codecs.getincrementaldecoder("utf-8")() if text else None
        size = 0
        async for part, last in _pieces(parts, receive, room.pace):
            if size + len(part) > most:
                raise _too_large([], limit)  # noqa: TRY301  the room is given back below, whatever is raised
            if decoder is not None:
                _check_text(part, decoder, final=last)
            await share.grow(size + len(part))
            pages[size : size + len(part)] = part
            size += len(part)
        body.data = memoryview(pages)[:size].toreadonly()
        share.keep(size)
    except BaseException:
        body.release()
        raise
    return body


async def _pieces(parts: list[bytes], receive: Receive, pace: Pace) -> AsyncIterator[tuple[bytes, bool]]:
    """Yield the pieces of a body of which some are here, each with whether it is the last.

    Raises `ClientGoneError`, and `ApiError` (408) if they come too slowly; time in between does not count.
    """
    came, waited = sum(map(len, parts)), 0.0
    while parts:
        yield parts.pop(0), False
    more = True
    while more:
        began = anyio.current_time()
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece, more = message.get("body", b""), message.get("more_body", False)
        waited += anyio.current_time() - began
        came += len(piece)
        if more:
            pace.check(came, waited)
        yield piece, not more


def _check_text(part: bytes, decoder: codecs.IncrementalDecoder, *, final: bool) -> None:
    try:
        decoder.decode(part, final)
    except UnicodeDecodeError as error:
        raise ApiError("invalid_json", f"the body is not JSON in UTF-8: {error.reason}") from None


def _too_large(headers: Headers, limit: int) -> ApiError:
    # A client that waits for "100 Continue" may or may not send the body now; only a new connection is sure.
    expects = any(name == b"expect" for name, _ in headers)
    close = ((b"connection", b"close"),) if expects else ()
    text = f"the body is larger than {limit} bytes ({limit / 2**20:g} MiB)"
    return ApiError("request_too_large", text, headers=close)
