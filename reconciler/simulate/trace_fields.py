"""Single fields of a request, from text or JSON: the slow way, which can say what is wrong."""

from datetime import tzinfo
from math import isfinite, nan
from typing import Final

from reconciler.simulate.trace import UNKNOWN
from reconciler.simulate.trace_errors import shown
from reconciler.simulate.trace_times import TEN_YEARS, TOO_LATE, Moment, Written

#: No request has more tokens, and none takes longer, in seconds: a billion, and about thirty years.
MOST: Final = 1_000_000_000
#: Characters of a name.
LONGEST_NAME: Final = 200

A_TIME: Final = "seconds since midnight such as 30600.5, or a date such as 2026-11-30T08:30:00+01:00"


class FieldError(ValueError):
    """A field is not what it must be. The text says so, with what would be right."""


def time_of(value: object, zone: tzinfo | None) -> tuple[float, Written, tzinfo | None]:
    """Return a time, how it is written, and the zone that it names. Raises FieldError."""
    number = _number(value)
    if number is None:
        return _date(value, zone)
    if not isfinite(number) or number < 0:
        raise FieldError(f"t is {shown(value)}, and must be {A_TIME}")
    if number >= TOO_LATE:
        raise FieldError(f"t is {shown(value)}: are these milliseconds? It must be seconds, or a date")
    return number, Written.EPOCH if number >= TEN_YEARS else Written.SECONDS, None


def _date(value: object, zone: tzinfo | None) -> tuple[float, Written, tzinfo | None]:
    if value is None or value == "":
        raise FieldError(f"t is missing: {A_TIME}")
    try:
        if isinstance(value, str):
            moment = Moment(value.strip(), zone)
            return moment.epoch, Written.DATES, moment.zone
    except (ValueError, OverflowError, OSError):
        pass
    raise FieldError(f"t is {shown(value)}, and must be {A_TIME}")


def name_of(value: object, key: str) -> str:
    """Return the name of a model or client. Raises FieldError."""
    if value is None and key != "model":
        return ""
    if not isinstance(value, str):
        what = "missing" if value is None else f"{shown(value)}, and must be a text"
        raise FieldError(f"{key} is {what}")
    name = value.strip()
    if not name and key == "model":
        raise FieldError("model is missing: the name that the request asks for")
    if len(name) > LONGEST_NAME:
        raise FieldError(f"{key} is {len(name):,} characters long; {LONGEST_NAME} at most")
    return name


def tokens_of(value: object, key: str) -> int:
    """Return a number of tokens; none stated = `UNKNOWN`. Raises FieldError."""
    if value is None or value == "":
        return UNKNOWN
    number = _number(value)
    if number is None or not 0 <= number <= MOST or not number.is_integer():
        raise FieldError(f"{key} is {shown(value)}, and must be a whole number from 0 to {MOST:,}")
    return int(number)


def seconds_of(value: object, key: str) -> float:
    """Return a length in seconds; none stated = nan. Raises FieldError."""
    if value is None or value == "":
        return nan
    number = _number(value)
    if number is None or not 0 <= number <= MOST:
        raise FieldError(
            f"{key} is {shown(value)}, and must be seconds from 0 to {MOST:,}; leave it empty for none"
        )
    return number


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
