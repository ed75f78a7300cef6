"""Giving back what a framework keeps for later: after many calls, and when nothing has been asked for a while."""

from __future__ import annotations

import gc
import sys
import time
from typing import Any

from .errors import name_of, say, text_of

#: Calls after which caches are emptied while work goes on, and the seconds between two times at least.
EVERY_CALLS = 1000
EVERY_SECONDS = 60.0
#: Seconds without a call after which they are emptied.
IDLE_SECONDS = 5.0


class Caches:
    """Knows when it is time, and what there is to empty. Used by the thread that calls the class."""

    def __init__(self, model: Any) -> None:
        self._own = getattr(model, "empty_cache", None)
        self._calls = 0
        self._last = time.monotonic()
        self.emptied = 0

    @property
    def dirty(self) -> bool:
        """Whether the class was called since they were emptied last."""
        return self._calls > 0

    def called(self) -> None:
        """Count a call, and empty the caches if it is time."""
        self._calls += 1
        if self._calls >= EVERY_CALLS and time.monotonic() - self._last >= EVERY_SECONDS:
            self.empty()

    def failed(self, error: BaseException) -> None:
        """Make room after a call that ran out of memory."""
        if isinstance(error, MemoryError) or "out of memory" in text_of(error).lower():
            self.empty()

    def empty(self) -> None:
        """Have the class, or else torch, give back what it does not need."""
        self._calls, self._last = 0, time.monotonic()
        self.emptied += 1
        gc.collect()
        try:
            if self._own is not None:
                self._own()
            else:
                _empty_torch()
        except BaseException as error:  # the user's code, or a driver's: no reason to stop serving
            say(f"worker: emptying the caches failed: {name_of(error)}")


def _empty_torch() -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for part in ("cuda", "mps"):
        backend = getattr(torch, part, None)
        if backend is not None and backend.is_available():
            backend.empty_cache()
