"""When in the day the sessions of a model begin, and what that says of the next one. Times are local seconds."""

from bisect import bisect_left, bisect_right
from collections import deque
from itertools import pairwise
from math import exp, fsum
from statistics import fmean, pstdev
from typing import Final

from reconciler.core.gaps import HORIZON

DAY: Final = 86_400.0
#: The day is parted into half hours; seconds.
SLOT: Final = 1800.0
_SLOTS: Final = int(DAY / SLOT)
#: Yesterday counts this much of today.
_FADING: Final = 0.85
#: Neighbouring half hours count with these weights.
_KERNEL: Final = ((-2, 1 / 3), (-1, 2 / 3), (0, 1.0), (1, 2 / 3), (2, 1 / 3))
#: The model's mean counts as so many half hours.
_MEAN_WEIGHT: Final = 0.7
#: Half hours that are looked ahead: what is further off is discounted to next to nothing.
_AHEAD: Final = 5
#: Days on which the same time is looked up, and how long before and after it a session may have begun; seconds.
_DAYS: Final = 3
_BEFORE: Final = 300.0
_AFTER: Final = 1200.0
#: Beginnings kept: a few days of a busy desk.
_KEPT: Final = 400
#: What was so on each of these days is believed this far.
_TRUST: Final = 0.3
#: A rhythm is seen in so many beginnings, if their distances differ by less than this share and are not shorter.
_BEATS: Final = (4, 6)
_EVEN: Final = 0.1
_SHORTEST_BEAT: Final = 600.0
#: The next beat is believed this far once it is due. What is further off is believed less, beside being discounted:
#: twice the discount is what came true, where once overrated it two times.
_NEXT_BEAT: Final = 0.72


class Daytime:
    """Beginnings of the sessions of one model."""

    __slots__ = ("_beat", "_beginnings", "_counts", "_exposure", "_first", "_rates", "_slot")

    def __init__(self, now: float) -> None:
        self._first = now
        self._slot = int(now // SLOT)
        self._counts = [0.0] * _SLOTS
        #: How often each half hour was lived through, the older days faded.
        self._exposure = [0.0] * _SLOTS
        self._beginnings: deque[float] = deque(maxlen=_KEPT)
        #: Sessions a second that are expected in this half hour and the next ones; None = to be worked out.
        self._rates: list[float] | None = None
        #: Seconds from one beginning to the next, where they follow a rhythm.
        self._beat: float | None = None

    def begins(self, at: float) -> None:
        """Note that a session began."""
        self._pass(at)
        self._counts[self._slot % _SLOTS] += 1.0
        self._beginnings.append(at)
        self._rates = None
        self._beat = _rhythm(list(self._beginnings)[-_BEATS[1] :])

    def next_session(self, now: float) -> float:
        """Return the chance that a session begins, discounted by how far off it is, by the time of the day."""
        self._pass(now)
        if self._rates is None:
            self._rates = self._worked_out()
        left = (self._slot + 1) * SLOT - now
        expected, reached = 0.0, 1.0
        for rate in self._rates:
            leave = rate + 1.0 / HORIZON
            through = exp(-leave * left)
            expected += reached * rate / leave * (1.0 - through)
            reached *= through
            left = SLOT
        return expected

    def recurs(self, now: float) -> float:
        """Return the chance that a session begins soon: one did at this time of the last days, or there is a rhythm."""
        return max(self._as_on_other_days(now), self._by_rhythm(now))

    def _as_on_other_days(self, now: float) -> float:
        days = min(_DAYS, int((now - self._first) // DAY))
        if days == 0 or not self._beginnings:
            return 0.0
        begun = self._beginnings
        hits = 0
        for day in range(1, days + 1):
            same = now - day * DAY
            place = bisect_left(begun, same - _BEFORE)
            hits += place < len(begun) and begun[place] <= same + _AFTER
        if hits == 0 or bisect_right(begun, now - _BEFORE) < len(begun):
            return 0.0  # or it has come today already
        return _TRUST * float(((hits + 0.25) / (days + 0.75)) ** 1.5)

    def _by_rhythm(self, now: float) -> float:
        if self._beat is None:
            return 0.0
        due = self._beginnings[-1] + self._beat - now
        return _NEXT_BEAT * exp(-2.0 * max(due, 0.0) / HORIZON) if due >= -_EVEN * self._beat else 0.0

    def _pass(self, now: float) -> None:
        """Note the half hours that have gone by."""
        slot = int(now // SLOT)
        if slot == self._slot:
            return
        # Of an absence longer than a month nothing is left but that.
        for passed in range(max(self._slot, slot - 31 * _SLOTS), slot):
            self._exposure[passed % _SLOTS] += 1.0
            if (passed + 1) % _SLOTS == 0:
                self._counts = [count * _FADING for count in self._counts]
                self._exposure = [lived * _FADING for lived in self._exposure]
        self._slot = slot
        self._rates = None

    def _worked_out(self) -> list[float]:
        counts, lived = self._counts, self._exposure
        mean = fsum(counts) / max(1.0, fsum(lived))
        rates = []
        for slot in range(self._slot, self._slot + _AHEAD):
            near = [((slot + by) % _SLOTS, weight) for by, weight in _KERNEL]
            seen = fsum(counts[k] * weight for k, weight in near) + _MEAN_WEIGHT * mean
            rates.append(seen / (fsum(lived[k] * weight for k, weight in near) + _MEAN_WEIGHT) / SLOT)
        return rates


def _rhythm(beginnings: list[float]) -> float | None:
    """Return the seconds between beginnings that follow each other evenly; None = they do not."""
    if len(beginnings) < _BEATS[0]:
        return None
    gaps = [b - a for a, b in pairwise(beginnings)]
    mean = fmean(gaps)
    even = mean >= _SHORTEST_BEAT and pstdev(gaps, mean) <= _EVEN * mean
    return mean if even else None
