"""Times as they are written in traces, and as they are kept: seconds since a local midnight.

A trace begins on some day. What is kept is how long after that day's midnight each request came; the length of that
day and the ones after it is 86,400 seconds, also where the clocks were changed meanwhile.
"""

from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone, tzinfo
from enum import Enum
from typing import Final

#: Ten years of seconds: what is more is no time since the beginning of a trace, but since 1970.
TEN_YEARS: Final = 315_360_000.0
#: A second of the year 5138; a time above it counts milliseconds or less.
TOO_LATE: Final = 1e11


class Written(Enum):
    """How the times of a file are written."""

    SECONDS = "seconds since midnight"
    EPOCH = "seconds since 1970"
    DATES = "dates"


class Moment:
    """A date as people write it, understood: seconds since 1970, and the zone if it names one besides UTC."""

    __slots__ = ("epoch", "zone")

    def __init__(self, text: str, zone: tzinfo | None) -> None:
        """Raise ValueError if `text` is no date with a time; one without a zone is of `zone` (None = the machine's)."""
        if len(text) < len("2026-11-30T08"):
            raise ValueError(text)
        moment = datetime.fromisoformat(text)
        # At the ends of the calendar there is no day before, or after, in another zone.
        if not MINYEAR < moment.year < MAXYEAR:
            raise ValueError(text)
        offset = moment.utcoffset()
        if offset is None and zone is not None:
            moment = moment.replace(tzinfo=zone)
        self.epoch = moment.timestamp()
        self.zone = timezone(offset) if offset else None


def midnight_before(epoch: float, zone: tzinfo | None) -> float:
    """Return the second since 1970 at which the local day of `epoch` began; `zone` None = the machine's."""
    there = datetime.fromtimestamp(epoch, UTC).astimezone(zone)
    begin = there.replace(hour=0, minute=0, second=0, microsecond=0)
    if zone is None:
        begin = begin.replace(tzinfo=None)
    return begin.timestamp()


def day_and_time(seconds: float) -> str:
    """Return seconds since midnight as people read them, for messages.

    >>> day_and_time(30879.72), day_and_time(86400.0 * 2 + 60)
    ('08:34:39', 'day 3 00:01:00')
    """
    day, rest = divmod(int(seconds), 86_400)
    clock = str(timedelta(seconds=rest)).rjust(8, "0")
    return f"day {day + 1} {clock}" if day else clock
