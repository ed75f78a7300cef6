"""How far a search for models is, on standard error: only on a terminal, and only once it is worth looking at."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

#: Seconds without a line, and between two.
_PATIENCE: Final = 1.0
_PACE: Final = 0.1


class Looking:
    """One line that is written over. Use it as a context: it is gone when the search ends, however it ends."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._next = now() + _PATIENCE
        self._shown = False

    def __enter__(self) -> "Looking":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._write("")

    def tell(self, names: int, models: int) -> None:
        """Show how many names were looked at so far, and how many models were found."""
        if not sys.stderr.isatty() or self._now() < self._next:
            return
        self._next, self._shown = self._now() + _PACE, True
        self._write(f"looking for models: {names} names, {models} models")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
