"""Many clients in one task: each is an asyncio protocol of a few fields; and an engine that is no bottleneck."""

import asyncio
import json
import resource
from typing import cast

import pytest

#: Pieces of a stream after which a client is in the middle of it.
SOME_PIECES = 3


class Caller(asyncio.Protocol):
    """One connection that sends one request; `status` settles once, 0 if it was closed before its answer began.

    `middle` settles when some of the answer is here, `ended` when all of it is, both at the latest when the
    connection is lost.
    """

    __slots__ = (
        "_left",
        "_pieces",
        "_tail",
        "body",
        "clean",
        "ended",
        "middle",
        "request",
        "status",
        "transport",
    )

    def __init__(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.request = request
        self.transport = cast("asyncio.Transport", None)
        self.status: asyncio.Future[int] = loop.create_future()
        self.middle: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        #: Whether the answer came to its proper end.
        self.clean = False
        self.body = b""
        self._pieces = 0
        #: Bytes of the body to come; None = it is in chunks.
        self._left: int | None = None
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self._pieces += 1
        if self._pieces == SOME_PIECES and not self.middle.done():
            self.middle.set_result(None)
        if not self.status.done():
            data = self._tail + data
            head, end, rest = data.partition(b"\r\n\r\n")
            if not end:
                self._tail = data
                return
            length = head.lower().partition(b"content-length: ")[2]
            self._left = int(length.split(b"\r\n")[0]) if length else None
            self.status.set_result(int(head[9:12]))
            self._tail, data = b"", rest
        self._take(data)

    def _take(self, data: bytes) -> None:
        self.body = (self.body + data)[-2000:]
        if self._left is not None:
            self._left -= len(data)
        if self._left == 0 or (self._left is None and self.body.endswith(b"0\r\n\r\n")):
            self.clean = True
            self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()

    def _settle(self) -> None:
        if not self.status.done():
            self.status.set_result(0)
        for future in (self.middle, self.ended):
            if not future.done():
                future.set_result(None)

    def leave(self) -> None:
        """Close the connection at once."""
        self.transport.abort()


async def call(port: int, request: bytes, *, patience: float = 10.0) -> Caller:
    """Connect and send a request; a port that is too busy to be reached is tried again."""
    async with asyncio.timeout(patience):
        while True:
            try:
                _, made = await asyncio.get_running_loop().create_connection(
                    lambda: Caller(request), "127.0.0.1", port
                )
            except (ConnectionError, TimeoutError):
                continue
            return made


def chat(model: str, **fields: object) -> bytes:
    """Return a request for a chat completion."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class SwiftEngine(asyncio.Protocol):
    """Answers every request at once, over kept connections. `served` counts them by class."""

    served = 0

    def __init__(self) -> None:
        self._data = b""
        self._transport = cast("asyncio.Transport", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while True:
            head, end, rest = self._data.partition(b"\r\n\r\n")
            if not end:
                return
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            if len(rest) < size:
                return
            self._data = rest[size:]
            type(self).served += 1
            self._transport.write(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}')


def need_descriptors(count: int) -> None:
    """See to it that this process may open so many files; skip the test where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"this machine allows {hard} open files, {count} are needed")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
