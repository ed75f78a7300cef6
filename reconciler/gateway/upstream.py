"""Towards the engines: one connection for each request, so that none is ever stale and all can be closed.

A kept-alive connection that the engine closes in the moment of reuse would be an error that must not be
retried (the engine may have begun), and an idle one holds a thread of llama-server and delays its end.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import httpx

from reconciler.gateway.errors import ApiError
from reconciler.leases import Endpoint

Headers = list[tuple[bytes, bytes]]

CONNECT_SECONDS: Final = 5.0
#: Larger bodies are sent in pieces, so that no second copy of them piles up in a socket's buffer.
PIECE_BYTES: Final = 256 * 1024
CLOSE_SECONDS: Final = 2.0

#: Meant for one connection, not for the message (RFC 9110, 7.6.1).
HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)
#: Ours to say, or between the client and us: an engine gets no key, no cookie and no origin.
NOT_FORWARDED: Final = HOP_BY_HOP | frozenset(
    b"host content-length expect authorization x-api-key api-key cookie origin".split()
)


class _Body(httpx.AsyncByteStream):
    def __init__(self, data: bytes) -> None:
        self.data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.data), PIECE_BYTES):
            yield self.data[start : start + PIECE_BYTES]


class UpstreamPool:
    """Open exchanges with engines, by model. `transport` is for tests; the default goes past any proxy."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        # verify=False: only http:// to loopback is spoken; it saves reading the system's certificates.
        self._transport = transport or httpx.AsyncHTTPTransport(
            verify=False,
            trust_env=False,
            limits=limits,
        )
        self._open: dict[str, list[Callable[[], None]]] = {}
        self._closed = anyio.Event()

    @asynccontextmanager
    async def exchange(
        self, endpoint: Endpoint, request: httpx.Request, *, first_byte: float, abort: Callable[[], None]
    ) -> AsyncIterator[httpx.Response]:
        """Send `request` and yield the answer once its headers are here; its body is read by the caller.

        `abort` must end the block at once; `close` calls it. Raises `httpx.TransportError`, and `ApiError` when
        the headers take longer than `first_byte` seconds.
        """
        aborts = self._open.setdefault(endpoint.model, [])
        aborts.append(abort)
        response: httpx.Response | None = None
        try:
            with anyio.move_on_after(first_byte):
                response = await self._transport.handle_async_request(request)
            if response is None:
                text = f"model {endpoint.model!r} sent nothing for {first_byte:g} s"
                raise ApiError("upstream_timeout", text)
            response.request = request
            yield response
        finally:
            if response is not None:
                with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                    await response.aclose()
            aborts.remove(abort)
            self._closed.set()
            self._closed = anyio.Event()

    async def close(self, model: str) -> None:
        """Abort all exchanges with a model and return when their connections are closed."""
        for abort in list(self._open.get(model, ())):
            abort()
        while self._open.get(model):
            await self._closed.wait()
        self._open.pop(model, None)

    async def aclose(self) -> None:
        """Close everything; the pool is not used again."""
        for model in sorted(self._open):
            await self.close(model)
        await self._transport.aclose()


def build_request(endpoint: Endpoint, path: bytes, headers: Headers, body: bytes) -> httpx.Request:
    """Return the request for the engine: the client's path, query, headers and body, framed anew."""
    url = httpx.URL(endpoint.base_url).copy_with(raw_path=path)
    length = str(len(body)).encode()
    own: Headers = [(b"host", url.netloc), (b"content-length", length), (b"connection", b"close")]
    timeout = {"connect": CONNECT_SECONDS, "read": None, "write": None, "pool": None}
    return httpx.Request(
        "POST",
        url,
        headers=[*kept(headers, NOT_FORWARDED), *own],
        stream=_Body(body),
        extensions={"timeout": timeout},
    )


def answer_headers(response: httpx.Response) -> Headers:
    """Return the engine's headers that are meant for the client; CORS and `Date` are ours to say."""
    drop = HOP_BY_HOP | {b"date"}
    if "transfer-encoding" in response.headers:
        drop |= {b"content-length"}
    headers = kept(response.headers.raw, drop)
    return [(name, value) for name, value in headers if not name.startswith(b"access-control-")]


def kept(headers: Headers, drop: frozenset[bytes]) -> Headers:
    """Return `headers` in lower case without those in `drop` and those that `Connection` names."""
    lower = [(name.lower(), value.strip()) for name, value in headers]
    listed = b",".join(value for name, value in lower if name == b"connection").lower().split(b",")
    gone = drop | {name.strip() for name in listed}
    return [(name, value) for name, value in lower if name not in gone]
