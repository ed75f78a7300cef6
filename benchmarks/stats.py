"""The few statistics used here."""

import math
import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` % of `values` do not exceed.

    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 95)
    (2, 4)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def exponent(small: tuple[float, float], large: tuple[float, float]) -> float:
    """Return k for which time grows as size ** k between two (size, time).

    >>> round(exponent((10, 1.0), (100, 10.0)), 2)
    1.0
    """
    return math.log(large[1] / small[1]) / math.log(large[0] / small[0])


def in_ms(seconds: float) -> str:
    """Return seconds as milliseconds with three figures.

    >>> in_ms(0.0123), in_ms(1.5)
    ('12.3 ms', '1.5e+03 ms')
    """
    return f"{seconds * 1000:.3g} ms"
