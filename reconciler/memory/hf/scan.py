"""The members of a JSON object one at a time, without building the whole: a few bytes of text can be many of Python."""

import json
import re
from collections.abc import Iterator
from typing import Final

_SPACE: Final = rb"[ \t\r\n]*+"
_STRING: Final = rb'"(?:[^"\\\x00-\x1f]++|\\.)*+"'
_SCALAR: Final = rb"[-+.0-9A-Za-z]++"
_ARRAY: Final = rb'\[(?:[^\[\]{}"]++|' + _STRING + rb")*+\]"
#: An object that holds no further one.
_OBJECT: Final = rb'\{(?:[^{}"]++|' + _STRING + rb")*+\}"
_MEMBER: Final = re.compile(
    rb"%b(%b)%b:%b(%b)%b([,}])"
    % (_SPACE, _STRING, _SPACE, _SPACE, b"|".join((_STRING, _OBJECT, _ARRAY, _SCALAR)), _SPACE)
)
#: Digits of a number that means something.
_MOST_DIGITS: Final = 100
_OPEN: Final = re.compile(_SPACE + rb"\{" + _SPACE + rb"(\})?")


class Malformed(ValueError):
    """The text is not an object as it should be; the message says where."""


def members(text: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield name (with its quotes) and the bounds of the value for each member of the object `text[start:end]`.

    Values may be objects, but those hold no further ones. Only the outline is checked, and that nothing but space
    follows. Time and memory grow with the text alone. Raises `Malformed`.
    """
    opened = _OPEN.match(text, start, end)
    if opened is None:
        raise Malformed("it does not begin with {")
    at = opened.end()
    if opened[1] is None:
        closed = b","
        while closed == b",":
            member = _MEMBER.match(text, at, end)
            if member is None:
                raise Malformed(f"it makes no sense at byte {at}")
            yield member[1], *member.span(2)
            closed, at = member[3], member.end()
    if text[at:end].strip(b" \t\r\n"):
        raise Malformed(f"something follows it at byte {at}")


def read_json(text: bytes | str) -> object:
    """Return what a text of bounded length says. Raises `ValueError` (also json's) and `RecursionError`."""
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise Malformed(f"a number in it has {len(digits)} digits")
    return int(digits)
