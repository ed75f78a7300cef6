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
_OURS: Final = (b"access-control-", b"x-reconciler-")


def answer_headers(headers: Headers) -> Headers:
    """Return an engine's headers that are meant for the client; CORS, `Date` and what bears our name are ours to say.

    A length that goes with a transfer coding is left out: it is not that of the body (RFC 9112, 6.3).
    """
    coded = b"transfer-encoding" in dict(headers)
    return [
        pair
        for pair in kept(headers, _NOT_ANSWERED)
        if not pair[0].startswith(_OURS) and not (coded and pair[0] == b"content-length")
    ]


def kept(headers: Headers, drop: frozenset[bytes]) -> Headers:
    """Return `headers` in lower case without those in `drop` and those that `Connection` names."""
    if b"connection" in map(bytes.lower, dict(headers)):
        listed = b",".join([value for name, value in headers if name.lower() == b"connection"])
        drop |= {name.strip() for name in listed.lower().split(b",")}
    return [(lower, value.strip()) for name, value in headers if (lower := name.lower()) not in drop]


def first(headers: Headers, name: bytes) -> bytes:
    """Return the first value of a header given in lower case; empty if there is none."""
    for key, value in headers:
        if key == name:
            return value
    return b""
