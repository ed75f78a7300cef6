"""What has come and gone since somebody looked last: kept without cost, handed over at leisure.

Rows are plain tuples: they are made on every request's way, and become something to read only when they are taken.
"""

from collections import deque
from typing import Final, NamedTuple

#: Rows kept of each kind; the oldest are lost when nobody takes them.
KEPT: Final = 50_000
#: Outcomes of a request. A refused one's is `refused:CODE`.
OK: Final = "ok"
FAILED: Final = "failed"
CUT: Final = "cut"
#: The client went, or its own limit of time was over, while it waited or was served.
LEFT: Final = "left"
REFUSED: Final = "refused:"


class Arrival(NamedTuple):
    """A request came for a model. `at` is monotonic seconds, like all times here."""

    model: str
    at: float


class Ended(NamedTuple):
    """A request is over; each has its `Arrival`."""

    model: str
    owner: str
    arrived: float
    #: Seconds it waited, and of these the seconds in which the model took no requests.
    waited: float
    cold: float
    ended: float
    outcome: str
    #: Tokens of the prompt and of the answer, where somebody knew them; None = nobody did.
    tokens: tuple[int | None, int | None] | None = None

    @property
    def seconds(self) -> float:
        """Seconds it was served."""
        return max(0.0, self.ended - self.arrived - self.waited)


class Record:
    """Arrivals and ended requests, in the order of their times."""

    __slots__ = ("_arrivals", "_ended", "arrived", "ended")

    def __init__(self) -> None:
        self._arrivals: deque[tuple[str, float]] = deque(maxlen=KEPT)
        self._ended: deque[tuple[object, ...]] = deque(maxlen=KEPT)
        #: What notes a row; bound once.
        self.arrived = self._arrivals.append
        self.ended = self._ended.append

    def taken(self) -> tuple[list[Arrival], list[Ended]]:
        """Return what came and what ended since the last call."""
        arrivals, ended = list(self._arrivals), list(self._ended)
        self._arrivals.clear()
        self._ended.clear()
        return list(map(Arrival._make, arrivals)), list(map(Ended._make, ended))
