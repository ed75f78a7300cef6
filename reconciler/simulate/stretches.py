"""When requests waited for a model that took none: for the picture, which cannot show every request by itself."""

from collections.abc import Iterable

#: From when, until when, and how many waited at most.
Stretch = tuple[float, float, int]


def stretches(waits: Iterable[tuple[float, float]]) -> tuple[Stretch, ...]:
    """Return the stretches of time in which anybody waited; `waits` are the (from, until) of each request.

    >>> stretches([(0.0, 5.0), (3.0, 5.0), (9.0, 10.0)])
    ((0.0, 5.0, 2), (9.0, 10.0, 1))
    """
    turns = sorted(turn for since, until in waits if until > since for turn in ((since, 1), (until, -1)))
    made: list[Stretch] = []
    began, now, most = 0.0, 0, 0
    for at, change in turns:
        if not now:
            began, most = at, 0
        now += change
        most = max(most, now)
        if not now:
            made.append((began, at, most))
    return tuple(made)
