"""Forms with files (RFC 7578), read strictly: what is not as it should be is refused, not guessed at."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import Refused

#: Parts of a form, and bytes of one part's head, at most.
MOST_PARTS = 64
MOST_HEAD = 8192
#: Spaces behind a boundary at most, its line's end among them.
_MOST_PADDING = 64
_BOUNDARY = re.compile(
    r"""multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n]{1,70})"|([!#$%&'*+.^_`|~0-9A-Za-z:/=?()-]{1,70}))""",
    re.IGNORECASE,
)
#: One parameter of a header field, with what stands before it. What is within quotes belongs to the value.
_PARAMETER = re.compile(
    r"""\s*;\s*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\\r\n]|\\.)*)"|([^\s;"]*)))?""",
)


class Part(NamedTuple):
    """One field; `filename` is None for a field that is no file."""

    name: str
    filename: str | None
    data: bytes


def parse(content_type: str, body: bytes) -> list[Part]:
    """Return the fields of a form in the order they were sent. Raises Refused."""
    found = _BOUNDARY.match(content_type.strip())
    if found is None:
        raise Refused("the body must be multipart/form-data with a boundary", 415)
    delimiter = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    separator = b"\r\n" + delimiter
    # What stands before the first boundary, an empty line as a rule, is for nobody (RFC 2046).
    before = 0 if body.startswith(delimiter) else body.find(separator) + 2
    if before == 1:
        raise Refused("the form has no boundary")
    parts: list[Part] = []
    at = _next_part(body, before + len(delimiter))
    while at is not None:
        end = body.find(separator, at)
        if end < 0:
            raise Refused("the form ends before its last boundary")
        if len(parts) == MOST_PARTS:
            raise Refused(f"the form has more than {MOST_PARTS} fields")
        parts.append(_part(body, at, end))
        at = _next_part(body, end + len(separator))
    return parts


def _next_part(body: bytes, at: int) -> int | None:
    """Return where a part begins behind the boundary that ends at `at`; None = it was the last one."""
    if body.startswith(b"--", at):
        return None
    end = body.find(b"\r\n", at, at + _MOST_PADDING)
    if end < 0 or body[at:end].strip(b" \t"):
        raise Refused("a boundary of the form is followed by neither a line nor the end")
    return end + 2


def _part(body: bytes, start: int, end: int) -> Part:
    head_end = body.find(b"\r\n\r\n", start, min(end, start + MOST_HEAD))
    if head_end < 0:
        raise Refused("a field of the form has no head, or one that is too long")
    disposition = ""
    for line in body[start:head_end].decode("utf-8", "replace").split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            disposition = value.strip()
    kind, known = _parameters(disposition)
    if kind != "form-data" or "name" not in known:
        raise Refused("a field of the form has no name")
    return Part(known["name"], known.get("filename"), body[head_end + 4 : end])


def _parameters(text: str) -> tuple[str, dict[str, str]]:
    """Return a header field's first word, in lower case, and its parameters. Raises Refused."""
    kind, semicolon, _ = text.partition(";")
    at, found = len(kind), dict[str, str]()
    while semicolon and text[at:].strip():
        one = _PARAMETER.match(text, at)
        if one is None:
            raise Refused("a field of the form has a head that cannot be read")
        if one[1] is not None:
            found.setdefault(one[1].lower(), one[3] if one[2] is None else _unquoted(one[2]))
        at = one.end()
    return kind.strip().lower(), found


def _unquoted(text: str) -> str:
    plain = re.sub(r"\\(.)", r"\1", text)
    # How browsers write a quote or a line's end in a name.
    return plain.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
