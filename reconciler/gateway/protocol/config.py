"""What a client may take its time with, and the answer it gets below the application: bytes on the wire."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from reconciler.gateway.errors import ApiError


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Bounds of one client's connection; durations in seconds."""

    #: Bytes of a request's head (first line, headers, and the trailers of a chunked body).
    head_bytes: int = 64 * 1024
    #: From the connection, or from the first byte of a further request, to the end of its head.
    head_seconds: float = 10.0
    #: Between two pieces of a body that the gateway wants to read.
    body_seconds: float = 30.0
    #: Without taking a byte of what was written for it. The application's own, shorter limits come first.
    write_seconds: float = 90.0
    #: For the client to read the last words of a connection that is being closed.
    linger_seconds: float = 1.0
    #: Requests that may be sent ahead while an earlier one is being answered.
    pipelined: int = 16
    #: Connections above the allowed number that are told so; beyond, they are closed without a word.
    refused: int = 256


#: Seconds after which a client that found all connections taken may try again.
CROWDED_RETRY_SECONDS: Final = 2.0


class GatewayConfig(uvicorn.Config):
    """uvicorn's configuration, and the rules for clients."""

    def __init__(
        self,
        app: ASGIApp,
        protocol: type[asyncio.Protocol],
        *,
        limits: ClientLimits,
        max_connections: Callable[[], int],
        **options: object,
    ) -> None:
        super().__init__(app, http=protocol, ws="none", **options)  # type: ignore[arg-type]
        self.limits = limits
        #: Asked at each connection, so that an edited manifest holds at once.
        self.max_connections = max_connections
        #: Connections above that number, which are being told so.
        self.refused: set[asyncio.Protocol] = set()


def raw_error(error: ApiError) -> bytes:
    """Return `error` as a whole HTTP/1.1 answer after which the connection ends."""
    body = json.dumps(error.body(), separators=(",", ":")).encode()
    try:
        phrase = HTTPStatus(error.status).phrase
    except ValueError:
        phrase = ""
    lines = [
        f"HTTP/1.1 {error.status} {phrase}".encode(),
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"connection: close",
        b"date: " + formatdate(usegmt=True).encode(),
        *(name + b": " + value for name, value in error.headers()),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def crowded(limit: int) -> ApiError:
    """Return the refusal of a connection above `limit`."""
    text = f"{limit} connections are open, as many as gateway.max_connections allows"
    return ApiError("too_many_connections", text, retry_after=CROWDED_RETRY_SECONDS)


def too_large(limit: int) -> ApiError:
    """Return the refusal of a head above `limit` bytes."""
    return ApiError("headers_too_large", f"the head is larger than {limit} bytes")
