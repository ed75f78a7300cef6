"""Keeps logs small while they are written: the next look comes before much more than the cap can have been written."""

import threading
from collections.abc import Iterable
from typing import Final

from reconciler.host.logs import Logs

#: Bytes a second that a program writes into its log at most, as far as is provided for; one that does nothing else.
FASTEST: Final = 200e6
#: Bytes that a log grew by since the last look that make it a flood.
FLOOD: Final = 1 << 20
#: Seconds between two looks at least, and to the next one after a file could not be rotated, as on a full disk.
SHORTEST: Final = 0.005
AFTER_TROUBLE: Final = 1.0
#: Seconds between two looks at all logs, also at those of models that have ended: they may have ended flooding.
CALM: Final = 10.0


class LogWatch:
    """Looks at the logs of models that run, in a thread of its own: a flood must not wait for a turn of the loop."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._models: tuple[str, ...] = ()
        #: What each log held after the last look.
        self._sizes: dict[str, int] = {}
        self._changed = threading.Event()
        self._closed = False

    def watch(self, models: Iterable[str]) -> None:
        """Look often at the logs of these models from now on, and at no others."""
        wanted = tuple(sorted(set(models)))
        if wanted != self._models:
            self._models = wanted
            self._changed.set()

    def run(self) -> None:
        """Look until `close` is called. Blocks."""
        left = 0.0
        while not self._closed:
            if left <= 0.0 or self._changed.is_set():
                self._changed.clear()
                self._logs.trim_all()
                left = CALM
            pause = min(self._look(), left)
            left -= pause
            self._changed.wait(pause)

    def close(self) -> None:
        """End `run`."""
        self._closed = True
        self._changed.set()

    def _look(self) -> float:
        """Rotate what has grown past its share; return the seconds until the next look."""
        models, sizes, flooded = self._models, dict[str, int](), False
        for model in models:
            try:
                size = self._logs.size(model)
                sizes[model] = 0 if self._logs.is_large(size) and self._logs.trim(model) else size
            except OSError:
                return AFTER_TROUBLE
            flooded = flooded or size - self._sizes.get(model, size) > FLOOD
        self._sizes = sizes
        return pace(max(sizes.values()), self._logs.cap, flooded=flooded) if models else CALM


def pace(largest: int, cap: int, *, flooded: bool) -> float:
    """Return the seconds in which a log of `largest` bytes reaches its cap at the earliest; half of that in a flood.

    Together with the rotated lines and their copy, which are half of the cap at most each, that is twice the cap.

    >>> [pace(mib << 20, 8 << 20, flooded=False) for mib in (0, 4, 9)]
    [0.04194304, 0.02097152, 0.005]
    """
    return max(SHORTEST, (cap - largest) / (2 * FASTEST if flooded else FASTEST))
