"""Sizes, durations and shares as people write them. Whatever two readers could take for two values is refused."""

import math
import re
from decimal import Decimal
from typing import Final

#: Bytes one size may be at most.
SIZE_LIMIT: Final = 1 << 62
#: Seconds one duration may be at most: a hundred years.
DURATION_LIMIT: Final = 100 * 365 * 86400.0

_DECIMAL: Final = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
UNITS: Final[dict[str, int]] = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    **_DECIMAL,
    **_BINARY,
    **{f"{k}B": v for k, v in _BINARY.items()},
}
SECONDS: Final[dict[str, Decimal]] = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}

_NUMBER = r"(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{1,30})?"
_UNIT = "|".join(sorted(filter(None, UNITS), key=len, reverse=True))
#: The patterns are the JSON Schema's too, so they stay within what ECMA 262 knows.
SIZE_PATTERN: Final = rf"^[ \t]*{_NUMBER}[ \t]*(?:{_UNIT})?[ \t]*$"
DURATION_PATTERN: Final = (
    rf"^[ \t]*(?:{_NUMBER}|(?=[0-9])"
    + "".join(rf"(?:{_NUMBER}{unit})?" for unit in ("d", "h", "m", "s", "ms"))
    + r")[ \t]*$"
)
PERCENT_PATTERN: Final = rf"^[ \t]*{_NUMBER}[ \t]*%[ \t]*$"

_SIZE = re.compile(rf"[ \t]*({_NUMBER})[ \t]*({_UNIT})?[ \t]*")
_PART = re.compile(rf"({_NUMBER})(ms|[smhd])")
_PERCENT = re.compile(rf"[ \t]*({_NUMBER})[ \t]*%[ \t]*")


class UnitError(ValueError):
    """A size, duration or share that cannot be understood, or not in one way only. `hint` says what to write."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        #: Completes "... is": never repeats the value, which may be a secret.
        self.problem = problem
        self.hint = hint


def parse_size(value: object) -> int:
    """Return bytes. Accepts an integer, or digits with an optional unit: `8GiB` = `8Gi` = 8 * 2^30, `8GB` = 8 * 10^9.

    A fraction of a byte is dropped (`1.0005KB` is 1000). Raises UnitError.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UnitError("not a size", "write a number of bytes, or a size like 8GiB, 512MiB or 8GB")
    text = str(value)
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UnitError(*_size_problem(text.strip()))
    number, unit = Decimal(match[1]), match[2] or ""
    if not unit and number != int(number):
        raise UnitError("not a whole number of bytes", f"write a unit, for example {match[1]}GiB")
    size = int(number * UNITS[unit])
    if size > SIZE_LIMIT:
        raise UnitError("more than 2^62 bytes", "no machine has that much; is the unit right?")
    return size


def parse_duration(value: object) -> float:
    """Return seconds. Accepts a number (seconds) or parts from days to milliseconds: `1h30m`, `500ms`, `2d`.

    Raises UnitError.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UnitError("not a duration", "write seconds, or a duration like 300s, 5m or 1h30m")
    seconds = _duration_text(value.strip(" \t")) if isinstance(value, str) else float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise UnitError("not a duration", "write 0 or more seconds, or a duration like 5m")
    if seconds > DURATION_LIMIT:
        raise UnitError("longer than a hundred years", "write `never` where that is meant and allowed")
    return seconds


def parse_percent(value: str) -> float:
    """Return a fraction: `75%` is 0.75. Raises UnitError for anything outside 0 to 100 %."""
    match = _PERCENT.fullmatch(value)
    if match is None or Decimal(match[1]) > 100:
        raise UnitError("not a percentage", "write 0% to 100%, for example 10%")
    return float(Decimal(match[1]) / 100)


def is_percent(value: object) -> bool:
    """Tell whether a value is meant as a percentage."""
    return isinstance(value, str) and value.rstrip().endswith("%")


def format_size(size: int) -> str:
    """Return bytes for people: `8.0 GiB`, `100 MiB`, `0 B`."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        factor = _BINARY[unit]
        if size >= factor:
            number = f"{size / factor:.1f}" if unit in ("Ti", "Gi") else f"{size / factor:.0f}"
            return f"{number} {unit}B"
    return f"{size} B"


def _duration_text(text: str) -> float:
    if re.fullmatch(_NUMBER, text):
        return float(text)
    total, position, last = Decimal(0), 0, Decimal(10**9)
    while match := _PART.match(text, position):
        factor = SECONDS[match[2]]
        if factor >= last:
            raise UnitError("not a duration", "write each unit once, from days down to milliseconds: 1h30m")
        total, position, last = total + Decimal(match[1]) * factor, match.end(), factor
    if position == 0 or position != len(text):
        raise UnitError("not a duration", "write it like 500ms, 300s, 5m, 1h30m or 2d")
    return float(total)


def _size_problem(text: str) -> tuple[str, str]:
    """Say what is wrong with a size that did not parse, and what to write."""
    if re.fullmatch(r"0[0-9]+", text):
        return (
            "a number with a leading zero, which some readers take as octal",
            f"write {text.lstrip('0') or '0'}",
        )
    if re.fullmatch(r"[0-9]+(_[0-9]+)+", text):
        return (
            "a number with underscores, which not all YAML readers take as one",
            f"write {text.replace('_', '')}",
        )
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?[eE]\+?[0-9]{1,2}", text):
        return "a floating-point number, not a size", f"write {_plain(text)} or a unit"
    match = re.fullmatch(rf"({_NUMBER})[ \t]*([kKmMgGtT])(b|ib)?", text)
    if match:
        number, letter = match[1], match[2].upper()
        return (
            "ambiguous: it could mean powers of 1000 or of 1024",
            f"write {number}{letter}iB (1024-based) or {number}{letter}B (1000-based)",
        )
    if re.fullmatch(r"-.*", text):
        return "negative", "write 0 or more bytes"
    if "," in text:
        return "not a size", "write the decimal point as a dot, and nothing between thousands"
    return "not a size", "write a number of bytes, or a size like 8GiB, 512MiB or 8GB"


def _plain(text: str) -> str:
    return f"{Decimal(text):f}"
