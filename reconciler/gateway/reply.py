"""The answer to one client: an engine's bytes as they come, or an error, also in the middle of a stream."""

import json
from typing import Final

import anyio
import httpx
from starlette.types import Send

from reconciler.gateway.errors import ApiError
from reconciler.gateway.upstream import Headers, answer_headers

EVENT_STREAM: Final = b"text/event-stream"
#: Seconds to hand a client the last words of a broken stream; it may not be reading.
LAST_WORDS_SECONDS: Final = 1.0


class Reply:
    """What was sent so far, so that an error finds the right form."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.finished = False
        self._events = False
        self._tail = b"\n\n"

    async def relay(self, response: httpx.Response, extra: Headers) -> None:
        """Pass status, headers and body on, each piece as soon as it is here. Raises `httpx.TransportError`."""
        headers = answer_headers(response)
        names = {name for name, _ in headers}
        kind = next((value for name, value in headers if name == b"content-type"), b"")
        if kind.lower().startswith(EVENT_STREAM):
            self._events = not names & {b"content-encoding", b"content-length"}
            if b"x-accel-buffering" not in names:
                headers.append((b"x-accel-buffering", b"no"))
        start = {"type": "http.response.start", "status": response.status_code}
        self.started = True
        await self._send({**start, "headers": [*headers, *extra]})
        async for piece in response.aiter_raw():
            self._tail = (self._tail + piece[-4:])[-4:]
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        self.finished = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def fail(self, error: ApiError, extra: Headers) -> None:
        """Answer with `error`. A stream that has begun gets it as an event, and never a clean end.

        The missing end is what tells the client's library that the answer is not whole: the server closes the
        connection when the application returns without having completed its response.
        """
        if not self.started:
            self.started = self.finished = True
            await error.send(_adding(self._send, extra))
        elif self._events and self._tail.endswith((b"\n\n", b"\r\r", b"\r\n\r\n")):
            data = b"data: " + json.dumps(error.body()).encode() + b"\n\n"
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await self._send({"type": "http.response.body", "body": data, "more_body": True})


def _adding(send: Send, extra: Headers) -> Send:
    async def sender(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            message = {**message, "headers": [*headers, *extra]}  # type: ignore[misc]
        await send(message)

    return sender  # type: ignore[return-value]
