"""Whole columns of fields at once: quick, and with a mere ValueError, TypeError or OverflowError for what is not right.

Whatever is accepted here is what `trace_fields` makes of the same fields, one by one.
"""

from array import array
from collections.abc import Sequence
from math import isfinite, nan
from typing import Any, Final

from reconciler.simulate.trace import UNKNOWN
from reconciler.simulate.trace_fields import MOST

_MISSING: Final = ("", None)
_KINDS: Final = frozenset({str, int, float, type(None)})


def floats(values: Sequence[Any]) -> "array[float]":
    """Return a column in which no field is missing."""
    _check_kinds(values)
    return array("d", map(float, values))


def lengths(values: Sequence[Any]) -> "array[float]":
    """Return a column of seconds; missing = nan."""
    if all(v in _MISSING for v in dict.fromkeys(values)):
        return array("d", [nan]) * len(values)
    _check_kinds(values)
    given = [float(v) for v in values if v not in _MISSING]
    if not isfinite(sum(given)) or min(given) < 0 or max(given) > MOST:
        raise ValueError
    return array("d", [nan if v in _MISSING else float(v) for v in values])


def tokens(values: Sequence[Any]) -> "array[int]":
    """Return a column of whole numbers; missing = `UNKNOWN`."""
    whole = float not in _check_kinds(values)
    given = [v for v in values if v not in _MISSING]
    try:
        found = array("I", map(int, given)) if whole else None
    except ValueError:
        # Spreadsheets and data frames write 12 as 12.0 where a field of the column is missing.
        found = None
    if found is None:
        numbers = list(map(float, given))
        if not all(map(float.is_integer, numbers)):
            raise ValueError
        found = array("I", map(int, numbers))
    if max(found, default=0) > MOST:
        raise ValueError
    if len(found) == len(values):
        return found
    told = iter(found)
    return array("I", [UNKNOWN if v in _MISSING else next(told) for v in values])


def _check_kinds(values: Sequence[Any]) -> set[type]:
    kinds = set(map(type, values))
    if not kinds <= _KINDS:
        raise TypeError
    return kinds
