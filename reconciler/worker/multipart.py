"""Forms with files (RFC 7578), read strictly: what is not as it should be is refused, not guessed at."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import Refused

#: Parts of a form, and bytes of one part's head, at most.
MOST_PARTS = 64
MOST_HEAD = 8192
_BOUNDARY = re.compile(
    r"""multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n]{1,70})"|([!#$%&'*+.^_`|~0-9A-Za-z:/=?()-]{1,70}))""",
    re.IGNORECASE,
)
_NAME = re.compile(r"""[;\s]name=(?:"((?:[^"\\\r\n]|\\.)*)"|([^\s;"]+))""", re.IGNORECASE)
_FILE = re.compile(r"""[;\s]filename=(?:"((?:[^"\\\r\n]|\\.)*)"|([^\s;"]+))""", re.IGNORECASE)


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
    if not body.startswith(delimiter + b"\r\n"):
        raise Refused("the form does not begin with its boundary")
    parts: list[Part] = []
    at = len(delimiter) + 2
    separator = b"\r\n" + delimiter
    while True:
        end = body.find(separator, at)
        if end < 0:
            raise Refused("the form ends before its last boundary")
        if len(parts) == MOST_PARTS:
            raise Refused(f"the form has more than {MOST_PARTS} fields")
        parts.append(_part(body, at, end))
        at = end + len(separator) + 2
        after = body[at - 2 : at]
        if after == b"--":
            return parts
        if after != b"\r\n":
            raise Refused("a boundary of the form is followed by neither a line nor the end")


def _part(body: bytes, start: int, end: int) -> Part:
    head_end = body.find(b"\r\n\r\n", start, min(end, start + MOST_HEAD))
    if head_end < 0:
        raise Refused("a field of the form has no head, or one that is too long")
    disposition = ""
    for line in body[start:head_end].decode("utf-8", "replace").split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            disposition = value.strip()
    name = _NAME.search(disposition)
    if not disposition.lower().startswith("form-data") or name is None:
        raise Refused("a field of the form has no name")
    file = _FILE.search(disposition)
    return Part(_unquoted(name), None if file is None else _unquoted(file), body[head_end + 4 : end])


def _unquoted(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[2]
    plain = re.sub(r"\\(.)", r"\1", found[1])
    # How browsers write a quote or a line's end in a name.
    return plain.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
