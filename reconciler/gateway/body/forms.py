"""Forms with files (`multipart/form-data`): where the small fields lie in the bytes, without taking them apart.

The boundary is searched in the whole body, so a field may come before or after a file of any size, and the form
goes on to the engine byte for byte.
"""

import re
from dataclasses import dataclass
from typing import Final

from reconciler.gateway.body.bodies import Buffer, joined
from reconciler.gateway.errors import ApiError

#: More parts than any client sends, and bytes of the head of one.
MAX_PARTS: Final = 1000
MAX_HEAD_BYTES: Final = 8192
#: Bytes of a field that is read as text.
MAX_VALUE_BYTES: Final = 4096

_BOUNDARY: Final = re.compile(rb';[ \t]*boundary=(?:"([^"\r\n]{1,200})"|([^\s;",]{1,200}))', re.IGNORECASE)
_HEAD_END: Final = re.compile(rb"\r\n\r\n")
_NAME: Final = re.compile(rb'[; \t]name=(?:"((?:[^"\\\r\n]|\\.)*)"|([^\s;"]+))', re.IGNORECASE)
_FILE: Final = re.compile(rb"[; \t]filename\*?=", re.IGNORECASE)
_DISPOSITION: Final = re.compile(rb"^content-disposition[ \t]*:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Field:
    """One field that is no file: its name, and where its value begins and ends."""

    name: str
    start: int
    end: int


def is_form(content_type: bytes) -> bool:
    """Say whether a `Content-Type` is that of a form with files."""
    return content_type.lstrip().lower().startswith(b"multipart/form-data")


def fields(data: Buffer, content_type: bytes) -> list[Field]:
    """Return the fields of a form in their order; raise `ApiError` (400) if it is not one, or not whole."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise ApiError("invalid_form", "the Content-Type of the form names no boundary")
    mark = b"--" + (found.group(1) or found.group(2))
    starts = re.compile(rb"(?:\A|\r\n)" + re.escape(mark) + rb"(--)?[ \t]*(?:\r\n|\Z)")
    result: list[Field] = []
    part: int | None = None
    position = parts = 0
    while (match := starts.search(data, position)) is not None:
        if part is not None:
            _read_part(data, part, match.start(), result)
        if match.group(1):
            return result
        parts += 1
        if parts > MAX_PARTS:
            raise ApiError("invalid_form", f"the form has more than {MAX_PARTS} parts")
        part = match.end()
        # The line end of one mark may be the one before the next: an empty part.
        position = part - 2
    what = "does not end with its boundary" if parts else "does not begin with its boundary"
    raise ApiError("invalid_form", f"the form {what}")


def text_of(data: Buffer, field: Field) -> str:
    """Return the value of a field; raise `ApiError` (400) if it is no short text in UTF-8."""
    if field.end - field.start > MAX_VALUE_BYTES:
        raise ApiError("invalid_form", f"the field {field.name!r} is longer than {MAX_VALUE_BYTES} bytes")
    try:
        return str(bytes(data[field.start : field.end]), "utf-8")
    except UnicodeDecodeError:
        raise ApiError("invalid_form", f"the field {field.name!r} is not text in UTF-8") from None


def value_of(data: Buffer, form: list[Field], name: str) -> str | None:
    """Return the value of the last field called `name`, or None."""
    for field in reversed(form):
        if field.name == name:
            return text_of(data, field)
    return None


def with_field(data: Buffer, form: list[Field], name: str, value: str) -> bytes | memoryview:
    """Return the form with another value of every field called `name`; every other byte stays as it is."""
    view = memoryview(data)
    parts: list[Buffer] = []
    start = 0
    for field in form:
        if field.name == name:
            parts += [view[start : field.start], value.encode()]
            start = field.end
    return joined([*parts, view[start:]])


def _read_part(data: Buffer, start: int, end: int, result: list[Field]) -> None:
    # A part without headers begins with the empty line itself, whose first half closed the mark's line.
    head_end = _HEAD_END.search(data, start - 2, min(end, start + MAX_HEAD_BYTES))
    if head_end is None:
        raise ApiError("invalid_form", "a part of the form has no end of its headers")
    head = bytes(data[start : max(start, head_end.start())])
    disposition = _DISPOSITION.search(head)
    if disposition is None or _FILE.search(disposition.group(1)):
        return
    name = _NAME.search(disposition.group(1))
    if name is None:
        return
    text = (name.group(1) or name.group(2) or b"").decode("utf-8", "replace")
    result.append(Field(text, head_end.end(), max(head_end.end(), end)))
