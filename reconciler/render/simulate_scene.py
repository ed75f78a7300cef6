"""What the picture of a simulation shows, before it is known where. Times are seconds, sizes bytes."""

from dataclasses import dataclass
from typing import Final

Span = tuple[float, float]

_DAY: Final = 86400.0
#: Distances of ticks, in seconds, as people count time.
_STEPS: Final = (10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0, 43200.0, _DAY)


@dataclass(frozen=True, slots=True)
class Lane:
    """One model over the time."""

    name: str
    size: int | None
    resident: tuple[Span, ...] = ()
    loading: tuple[Span, ...] = ()
    evicting: tuple[Span, ...] = ()
    #: From when until when requests waited for it while it took none, and the most that waited at once.
    waiting: tuple[tuple[float, float, int], ...] = ()

    @property
    def holding(self) -> list[Span]:
        """When it holds memory: from the beginning of its load until it is gone."""
        return sorted([*self.resident, *self.loading, *self.evicting])


@dataclass(frozen=True, slots=True)
class Panel:
    """One run."""

    title: str
    told: str
    began: float
    ended: float
    budget: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """Where times are: `began` at the pixel `left`, `ended` that many pixels to its right."""

    began: float
    ended: float
    left: float
    width: int

    def x(self, at: float) -> float:
        """Return the pixel of a time; one outside is moved to the nearer end."""
        length = self.ended - self.began
        share = (at - self.began) / length if length > 0 else 0.0
        return self.left + min(1.0, max(0.0, share)) * self.width

    @property
    def per_pixel(self) -> float:
        """Seconds of one pixel."""
        return (self.ended - self.began) / self.width

    def ticks(self, room: float) -> list[float]:
        """Return round times, at least `room` pixels from each other; midnights are among them if any is."""
        need = room * self.per_pixel
        step = next((s for s in _STEPS if s >= need), None)
        if step is None:
            step = _DAY * -(-need // _DAY)
        first = -(-self.began // step)
        count = int((self.ended - first * step) // step) + 1 if self.ended >= first * step else 0
        return [(first + n) * step for n in range(count)]

    def midnights(self) -> list[float]:
        """Return every midnight within, the beginning left out."""
        first = self.began // _DAY + 1
        count = int(max(0.0, (self.ended - first * _DAY) // _DAY + 1))
        return [(first + n) * _DAY for n in range(count)]


def joined(spans: list[Span], axis: Axis, least: float, gap: float) -> list[Span]:
    """Return spans of time as spans of pixels: each at least `least` wide, those less than `gap` apart as one."""
    made: list[Span] = []
    for since, until in sorted(spans):
        left, right = axis.x(since), axis.x(until)
        right = max(right, left + least)
        if made and left - made[-1][1] < gap:
            made[-1] = (made[-1][0], max(made[-1][1], right))
        else:
            made.append((left, right))
    return made


def highest(waiting: tuple[tuple[float, float, int], ...], axis: Axis) -> list[int]:
    """Return for each pixel how many waited at most."""
    columns = [0] * axis.width
    for since, until, most in waiting:
        first = min(int(axis.x(since) - axis.left), axis.width - 1)
        last = min(int(axis.x(until) - axis.left), axis.width - 1)
        for column in range(first, last + 1):
            columns[column] = max(columns[column], most)
    return columns


def occupied(spans: list[Span], axis: Axis) -> list[float]:
    """Return for each pixel the share of its time that the spans cover, 0 to 1."""
    columns = [0.0] * axis.width
    for since, until in joined(spans, axis, 0.0, 0.0):
        left, right = since - axis.left, until - axis.left
        for column in range(int(left), min(int(right) + 1, axis.width)):
            columns[column] += max(0.0, min(right, column + 1) - max(left, column))
    return [min(1.0, column) for column in columns]
