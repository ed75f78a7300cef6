"""One request for an engine: what it is made of, and its head as bytes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from reconciler.gateway.upstream.answer import UpstreamError
from reconciler.gateway.upstream.headers import NOT_FORWARDED, Headers, kept
from reconciler.leases import Endpoint

Body = bytes | bytearray | memoryview

#: Methods whose requests have a body so seldom that its length is left out when there is none.
_USUALLY_EMPTY: Final = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


@dataclass(slots=True)
class Outgoing:
    """One request for an engine."""

    method: str
    #: With the query.
    path: bytes
    #: Without `Host`, `Connection` and the framing of the body: the connection writes those.
    headers: Headers
    body: Body | AsyncIterator[bytes]
    #: Bytes of a body that is an iterator; None = it is sent in chunks.
    length: int | None = None
    #: Whether it may go over a connection that carried another request, and the next one over its own.
    shares: bool = True

    @property
    def replayable(self) -> bool:
        """Whether the body is still whole after it was sent once."""
        return isinstance(self.body, Body)


def build_request(
    path: bytes,
    headers: Headers,
    body: Body | AsyncIterator[bytes],
    *,
    method: str = "POST",
    length: int | None = None,
    shares: bool = True,
) -> Outgoing:
    """Return the request for the engine: the client's path, query, headers and body, framed anew.

    `length` is that of a body that is an iterator, if it is known. With `shares` the request must be one that changes
    nothing at the engine: it may be sent twice (see `exchange.py`).
    """
    return Outgoing(method, path, kept(headers, NOT_FORWARDED), body, length, shares)


def head_of(outgoing: Outgoing, endpoint: Endpoint) -> bytes:
    """Return the bytes of the request's head."""
    parts = [
        b"%b %b HTTP/1.1\r\nhost: %b\r\n"
        % (outgoing.method.encode(), outgoing.path, address_of(endpoint.base_url)[2])
    ]
    # Here, and not among the headers of the request: those are looked at in more places than need to know it.
    if endpoint.authorization is not None:
        parts.append(b"authorization: %b\r\n" % endpoint.authorization.encode())
    parts += [b"%b: %b\r\n" % header for header in outgoing.headers]
    length = len(outgoing.body) if isinstance(outgoing.body, Body) else outgoing.length
    if length is None:
        parts.append(b"transfer-encoding: chunked\r\n")
    elif length or outgoing.method not in _USUALLY_EMPTY:
        parts.append(b"content-length: %d\r\n" % length)
    parts.append(b"\r\n")
    return b"".join(parts)


@lru_cache(maxsize=256)
def address_of(base_url: str) -> tuple[str, int, bytes]:
    """Return host, port, and the value of `Host`.

    >>> address_of("http://[::1]:18100"), address_of("http://localhost")
    (('::1', 18100, b'[::1]:18100'), ('localhost', 80, b'localhost'))
    """
    parts = urlsplit(base_url)
    if parts.scheme != "http" or parts.hostname is None:
        raise UpstreamError(f"{base_url} is no address of an engine")
    return parts.hostname, parts.port or 80, parts.netloc.encode()
