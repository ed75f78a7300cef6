"""How far a simulation is, on standard error: only on a terminal, and only once it is worth looking at."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Seconds of work without a bar: one that flashes up tells nobody anything.
PATIENCE: Final = 2.0


class Bar:
    """A bar over several stretches of work. Use it as a context: it is gone when the work ends, however it ends."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._shown: tuple[Progress, TaskID] | None = None
        self._what = ""

    def __enter__(self) -> "Bar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None

    def about(self, what: str) -> Callable[[float], None]:
        """Begin another stretch of work; return what is told the share of it that is done, 0 to 1."""
        self._what = what
        self._tell(0.0)
        return self._tell

    def _tell(self, done: float) -> None:
        if self._shown is None:
            if not sys.stderr.isatty() or self._now() - self._began < PATIENCE:
                return
            self._shown = self._begin()
        progress, task = self._shown
        progress.update(task, description=self._what, completed=done)

    def _begin(self) -> "tuple[Progress, TaskID]":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        progress.start()
        return progress, progress.add_task(self._what, total=1.0)
