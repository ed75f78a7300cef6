"""The head of an HTTP/1 request, read strictly. The library's own server brings all of email and TLS with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BufferedIOBase

from .errors import Refused

#: Bytes of a head, and lines of it, at most.
MOST = 64 << 10
MOST_LINES = 100
_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[!-~]*) HTTP/(1\.[01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Head:
    """What is asked, and the header fields: names in lower case, each with all its values."""

    method: str
    target: str
    version: str
    fields: dict[str, tuple[str, ...]]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def keeps(self) -> bool:
        """Whether the client would send another request over the connection."""
        words = ",".join(self.values("connection")).lower()
        return self.version == "1.1" and "close" not in [word.strip() for word in words.split(",")]

    def values(self, name: str) -> tuple[str, ...]:
        """Return all values of a field."""
        return self.fields.get(name, ())

    def value(self, name: str) -> str:
        """Return the first value of a field, or an empty text."""
        return next(iter(self.values(name)), "")


def read(stream: BufferedIOBase) -> Head | None:
    """Return the next request's head, or None when there is none any more. Raises Refused; then nothing follows."""
    left = MOST
    line = _line(stream, left)
    if line == b"\r\n":  # some clients end a body with one line too many
        line = _line(stream, left)
    if not line:
        return None
    found = _REQUEST.fullmatch(_text(line))
    if found is None:
        raise Refused("the request has no line as POST /path HTTP/1.1")
    fields: dict[str, tuple[str, ...]] = {}
    for _ in range(MOST_LINES + 1):
        left -= len(line)
        line = _line(stream, left)
        if line == b"\r\n":
            method, target, version = (part.decode("ascii") for part in found.groups())
            return Head(method, target, version, fields)
        name, value = _field(_text(line))
        fields[name] = (*fields.get(name, ()), value)
    raise Refused(f"the request has more than {MOST_LINES} header fields", 431)


def _line(stream: BufferedIOBase, most: int) -> bytes:
    line = stream.readline(most + 1)
    if len(line) > most:
        raise Refused(f"the head of the request is larger than {MOST >> 10} KiB", 431)
    return line


def _text(line: bytes) -> bytes:
    if not line.endswith(b"\r\n"):
        raise Refused("a line of the request was cut, or does not end as lines of HTTP do")
    return line[:-2]


def _field(line: bytes) -> tuple[str, str]:
    found = _FIELD.fullmatch(line)
    if found is None or _CONTROL.search(found[2]):
        raise Refused("the request has a header field that is none")
    return found[1].decode("ascii").lower(), found[2].decode("latin-1")
