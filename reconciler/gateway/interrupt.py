"""A block of work that others may end: what a cancel scope does, at a tenth of its price on every request.

Unlike a cancel scope it cancels once: what is awaited while the work is cleaned up is not cancelled again.
"""

import asyncio
from types import TracebackType


class Interrupt:
    """`with interrupt:` runs work of the current task until its end, or until `end()` is called. Used once."""

    __slots__ = ("_before", "_task", "asked", "caught")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._before = 0
        #: Whether the end was asked for, and whether that is how the block was left.
        self.asked = False
        self.caught = False

    def end(self) -> None:
        """End the block now; before it has begun, at its beginning; after it, never. Any task may call this."""
        if self.asked:
            return
        self.asked = True
        if self._task is None:
            return
        if (
            asyncio.current_task() is self._task
        ):  # a cancellation of one's own would come only at the next wait
            raise asyncio.CancelledError
        self._task.cancel()

    def __enter__(self) -> "Interrupt":
        task = asyncio.current_task()
        assert task is not None, "only a task can be interrupted"
        self._task, self._before = task, task.cancelling()
        if self.asked:
            task.cancel()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task, self._task = self._task, None
        if not self.asked or task is None:
            return False
        if task.cancelling() > self._before and task.uncancel() > self._before:
            return False  # somebody else cancels the whole task, too
        self.caught = kind is asyncio.CancelledError
        return self.caught
