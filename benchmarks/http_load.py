"""Clients that cost next to nothing, so that what is measured is who answers: requests made beforehand, one parser."""

import asyncio
import json
import socket
import time
from collections.abc import Mapping
from typing import Any, Final, cast

import uvloop

SECONDS: Final = 60.0


def post(path: str, body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


class EndedError(RuntimeError):
    """The connection was closed before the answer was whole."""


class Client:
    """One kept connection, blocking: what a single user sees."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> float:
        """Return the seconds until the whole answer is here."""
        began = time.perf_counter()
        self._sock.sendall(request)
        answer = bytearray()
        while not is_whole(answer):
            part = self._sock.recv(1 << 18)
            if not part:
                raise EndedError(f"the answer ended early: {bytes(answer[-500:])!r}")
            answer += part
        return time.perf_counter() - began

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()


def is_whole(answer: bytes | bytearray) -> bool:
    """Return whether this is one complete answer; raise `RuntimeError` if it is none that was hoped for."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"unexpected answer: {bytes(answer[:500])!r}")
    head = bytes(answer[:end]).lower()
    at = head.find(b"content-length:")
    if at < 0:
        return answer.endswith(b"\r\n0\r\n\r\n")
    return len(answer) >= end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])


class _Caller(asyncio.Protocol):
    """One of many connections: the next request goes out with the end of the last answer."""

    def __init__(self, load: "_Load") -> None:
        self._load = load
        self._transport = cast("asyncio.Transport", None)
        self._answer = bytearray()
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        try:
            if not is_whole(self._answer):
                return
        except RuntimeError as error:
            self._load.fail(error)
            return
        self._load.took.append(time.perf_counter() - self._began)
        self._answer.clear()
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._began:
            self._load.one_less()
        elif self._answer:
            self._load.fail(RuntimeError(f"the connection was closed within an answer: {exc}"))
        else:  # servers close a connection after so many requests
            self._load.left += 1
            self._load.open()

    def _next(self) -> None:
        if self._load.left:
            self._load.left -= 1
            self._began = time.perf_counter()
            self._transport.write(self._load.request)
        else:
            self._began = 0.0
            self._transport.close()


class _Load:
    def __init__(self, port: int, request: bytes, connections: int, total: int) -> None:
        self.request = request
        self.left = total
        self.took: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._port = port
        self._open = connections
        self._opening: set[asyncio.Task[None]] = set()
        for _ in range(connections):
            self.open()

    def open(self) -> None:
        task = asyncio.get_running_loop().create_task(self._connect())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: _Caller(self), "127.0.0.1", self._port)
        except OSError as error:
            self.fail(error)

    def one_less(self) -> None:
        self._open -= 1
        if not self._open and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


def flood(
    port: int, request: bytes, connections: int, total: int, seconds: float = SECONDS
) -> tuple[float, list[float]]:
    """Send `total` requests over so many connections at once; return the seconds of all and of each.

    Raises `RuntimeError` at the first answer that is not a whole 200, `TimeoutError` after `seconds`.
    """

    async def run() -> tuple[float, list[float]]:
        began = time.perf_counter()
        load = _Load(port, request, connections, total)
        async with asyncio.timeout(seconds):
            await load.done
        return time.perf_counter() - began, load.took

    return uvloop.run(run())
