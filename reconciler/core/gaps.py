"""How long a model stays idle between two uses, and what that says of one that is idle now."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from math import exp
from typing import Final

#: Uses this far apart belong to two sessions; seconds.
SESSION: Final = 300.0
#: What is expected `t` seconds from now counts exp(-t / HORIZON) now; seconds.
HORIZON: Final = 900.0
#: Lower ends of the bins, in seconds; the last one is open.
_EDGES: Final = (
    *(0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0),
    *(SESSION * 2.0**power for power in range(10)),
)
_IN_SESSION: Final = _EDGES.index(SESSION)
#: Each pause counts this much less with every further one.
_FADING: Final = 0.995
#: What is believed of a model nobody knows, in pauses: that P(pause > x) = (1 + x / 30 s)^-1/2, a heavy tail.
_BELIEF: Final = 2.0
_SCALE: Final = 30.0


def _outlasts(seconds: float) -> float:
    """Return the share of pauses longer than this that is believed of a model nobody knows."""
    return float((1.0 + seconds / _SCALE) ** -0.5)


def _discount(low: float, high: float) -> float:
    """Return the mean of exp(-t / HORIZON) over the times between two."""
    return (exp(-low / HORIZON) - exp(-high / HORIZON)) * HORIZON / (high - low)


_BELIEVED: Final = (
    *(_BELIEF * (_outlasts(low) - _outlasts(high)) for low, high in pairwise(_EDGES)),
    _BELIEF * _outlasts(_EDGES[-1]),
)


#: The discount of each whole bin, as seen from 0 seconds of idle time.
_DISCOUNTS: Final = (*(_discount(low, high) for low, high in pairwise(_EDGES)), 0.0)
#: Of who has been idle for longer than this nothing is expected any more; seconds.
_LOST: Final = _EDGES[-1]


class Pauses:
    """A histogram of the pauses of one model, the older ones faded."""

    __slots__ = ("_counts", "_weight")

    def __init__(self) -> None:
        self._counts = [0.0] * len(_EDGES)
        #: What the next pause counts: growing it is cheaper than letting all bins fade each time.
        self._weight = 1.0

    def add(self, seconds: float) -> None:
        """Note one pause."""
        self._counts[bisect_right(_EDGES, seconds) - 1] += self._weight
        self._weight /= _FADING
        if self._weight > 1e9:
            self._counts = [count / self._weight for count in self._counts]
            self._weight = 1.0

    def goes_on(self, idle: float) -> tuple[float, float, float]:
        """Return what is expected of a model that has been idle for so many seconds, as its pauses tell it.

        That is: the chance of a use within the present session, discounted by how far off it is; the chance that there
        is no such session any more; and the chance of any use, discounted likewise.
        """
        idle = min(idle, _LOST)
        counts, scale = self._counts, 1.0 / self._weight
        first = bisect_right(_EDGES, idle) - 1
        if first == len(_EDGES) - 1:
            return 0.0, 1.0, 0.0
        # Of the bin it is in, only what is left of it.
        low, high = _EDGES[first], _EDGES[first + 1]
        left = counts[first] * scale * (high - idle) / (high - low)
        left += _BELIEF * (_outlasts(idle) - _outlasts(high))
        expected, soon, in_session = left * _discount(0.0, high - idle), 0.0, 0.0
        later = whole = 0.0
        nearer = exp(idle / HORIZON)
        for place in range(first + 1, len(_EDGES)):
            share = counts[place] * scale + _BELIEVED[place]
            if place < _IN_SESSION:
                in_session += share
                soon += share * _DISCOUNTS[place]
            else:
                whole += share
                later += share * _DISCOUNTS[place]
        soon, later = soon * nearer, later * nearer
        if first < _IN_SESSION:
            soon, in_session = soon + expected, in_session + left
        else:
            later, whole = later + expected, whole + left
        ended, whole = whole, whole + in_session
        return soon / whole, ended / whole, (soon + later) / whole


def _tails(values: Iterable[float]) -> tuple[float, ...]:
    """Return of each place the sum of what comes after it."""
    sums = [0.0]
    for value in reversed(tuple(values)):
        sums.append(sums[-1] + value)
    return tuple(reversed(sums[:-1]))


#: Of what is believed, the pauses longer than each bin, and what is expected of them as seen from 0 seconds.
_LONGER: Final = _tails(_BELIEVED)
_EXPECTED: Final = _tails(share * discount for share, discount in zip(_BELIEVED, _DISCOUNTS, strict=True))


def untold(idle: float) -> float:
    """Return the chance of return that is believed of a model of whose use nothing is known.

    It is what `Pauses().goes_on(idle)` says of any use; most models are such, and each plan asks for all that are idle.
    """
    first = bisect_right(_EDGES, idle) - 1
    if first == len(_EDGES) - 1:
        return 0.0
    high = _EDGES[first + 1]
    left = _BELIEF * (_outlasts(idle) - _outlasts(high))
    expected = left * _discount(0.0, high - idle) + _EXPECTED[first] * exp(idle / HORIZON)
    return expected / (left + _LONGER[first])
