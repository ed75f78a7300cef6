"""What passes between a client and an engine of a message's head, and what is between two neighbours only."""

from typing import Final

Headers = list[tuple[bytes, bytes]]

#: Meant for one connection, not for the message (RFC 9110, 7.6.1).
HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)
#: Ours to say, or between the client and us: an engine gets no key, no cookie and no origin.
NOT_FORWARDED: Final = HOP_BY_HOP | frozenset(
    b"host content-length expect authorization x-api-key api-key cookie origin".split()
)
_NOT_ANSWERED: Final = HOP_BY_HOP | {b"date"}


def answer_headers(headers: Headers) -> Headers:
    """Return an engine's headers that are meant for the client; CORS and `Date` are ours to say.

    A length that goes with a transfer coding is left out: it is not that of the body (RFC 9112, 6.3).
    """
    coded = any(name == b"transfer-encoding" for name, _ in headers)
    return [
        (name, value)
        for name, value in kept(headers, _NOT_ANSWERED)
        if not name.startswith(b"access-control-") and not (coded and name == b"content-length")
    ]


def kept(headers: Headers, drop: frozenset[bytes]) -> Headers:
    """Return `headers` in lower case without those in `drop` and those that `Connection` names."""
    lower = [(name.lower(), value.strip()) for name, value in headers]
    listed = [value for name, value in lower if name == b"connection"]
    if listed:
        drop |= {name.strip() for name in b",".join(listed).lower().split(b",")}
    return [(name, value) for name, value in lower if name not in drop]


def first(headers: Headers, name: bytes) -> bytes:
    """Return the first value of a header given in lower case; empty if there is none."""
    return next((value for key, value in headers if key == name), b"")
