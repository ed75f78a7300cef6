"""What time of the day it is where this machine stands, on the loop's clock."""

import time
from collections.abc import Callable


def local_seconds(wall: float) -> float:
    """Return seconds since a local midnight (that of 1970-01-01), running on over the days, for a wall-clock time."""
    return wall + (time.localtime(wall).tm_gmtoff or 0)


class LocalTime:
    """Leads from the loop's clock to wall-clock and local time. Follows a clock that is set, and the time zone."""

    def __init__(self, wall: Callable[[], float], local: Callable[[float], float] = local_seconds) -> None:
        self._wall, self._local = wall, local
        self._to_wall = self._to_local = 0.0

    def follow(self, now: float) -> float:
        """Read the clock anew; return by how many seconds local time was set forward (negative: back)."""
        wall, before = self._wall(), self._to_local
        self._to_wall = wall - now
        self._to_local = self._local(wall) - now
        return self._to_local - before

    def wall_now(self) -> float:
        """Return what the wall's clock says now, in seconds."""
        return self._wall()

    def wall(self, at: float) -> float:
        """Return the wall-clock seconds of a reading of the loop's clock."""
        return at + self._to_wall

    def local(self, at: float) -> float:
        """Return the local seconds of a reading of the loop's clock."""
        return at + self._to_local
