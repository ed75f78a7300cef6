"""What a plain scalar means in YAML 1.2 (core schema), without ever losing what was written."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL: Final = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_NUMBER_LIKE = re.compile(
    r"[-+]?(?:[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))"
    r"|\.(?:nan|NaN|NAN)"
)
#: Digits after which an integer is no setting of ours any more, and conversions become slow.
_DIGITS: Final = 40


@dataclass(frozen=True, slots=True)
class OddNumber:
    """A number written in a way that readers disagree about (`0123`, `0x10`, `1e3`, `+5`, `.inf`)."""

    text: str


class Expanded(str):
    """Text that came, in part or whole, from the environment: never repeated in a message."""

    __slots__ = ()


class Nothing(Enum):
    """No value, in one of the few places where that means something."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING

Value = str | int | float | bool | OddNumber | None


def resolve(text: str) -> Value:
    """Return what YAML 1.2 makes of an unquoted scalar. `no`, `on`, `22:30` and dates are plain text there."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in "-+.0123456789":
        return text
    if _INT.fullmatch(text):
        return int(text) if len(text) <= _DIGITS else OddNumber(text)
    if _FLOAT.fullmatch(text):
        return float(text) if len(text) <= _DIGITS else OddNumber(text)
    return OddNumber(text) if _NUMBER_LIKE.fullmatch(text) else text


def kind(text: str) -> str | None:
    """Return what an unquoted scalar is, for people, or None if it is text."""
    match resolve(text):
        case None:
            return "no value (null)"
        case bool():
            return "true or false"
        case int() | float() | OddNumber():
            return "a number"
        case _:
            return None
