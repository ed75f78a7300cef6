"""Pieces of work for the class, as the thread of a request hands them over and waits for them."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Callable

from .errors import GONE, Failed, Refused, name_of, say

#: Seconds between two looks whether the client is still there.
_LOOK = 0.25


class Job:
    """One call. `perform` runs where the class is called; everything else where the request is served."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self.abandoned = False

    def perform(self) -> BaseException | None:
        """Make the call. Returns what it raised."""
        try:
            self.finish(self._call())
        except (Exception, SystemExit) as error:
            self.fail(error)
            return error
        return None

    def finish(self, result: Any) -> None:
        """Hand the result over."""
        self._result = result
        self._done.set()

    def fail(self, error: BaseException) -> None:
        """Hand the failure over; what the user's code raised is told in full in the log."""
        self._error = told(error)
        self._done.set()

    def result(self, gone: Callable[[], bool]) -> Any:
        """Wait for the end and return the result. Raises Failed or Refused; Refused also when the client is gone."""
        while not self._done.wait(_LOOK):
            if gone():
                self.abandoned = True
                raise Refused("the client has left", GONE)
        if self._error is not None:
            raise self._error
        return self._result


def told(error: BaseException) -> BaseException:
    """Return what a client is told of an exception, and write its traceback to the log unless it is ours."""
    if isinstance(error, (Refused, Failed)):
        return error
    say("".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip())
    return Failed(name_of(error))


class Stream(Job):
    """A call that hands over an iterator: its pieces arrive one by one."""

    def __init__(self, call: Callable[[], Iterator[Any]]) -> None:
        super().__init__(call)
        self._pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def perform(self) -> BaseException | None:
        """Make the call and hand over its pieces, until it ends or nobody wants them any more."""
        iterator: Any = None
        try:
            iterator = self._call()
            for piece in iterator:
                if self.abandoned:
                    break
                self._pieces.put(piece)
        except (Exception, SystemExit) as error:
            self.fail(error)
            return error
        finally:
            if self.abandoned and hasattr(iterator, "close"):
                iterator.close()
        self.finish(None)
        return None

    def finish(self, result: Any) -> None:
        """Say that there are no more pieces."""
        super().finish(result)
        self._pieces.put(_END)

    def fail(self, error: BaseException) -> None:
        """Say that there are no more pieces, because of this."""
        super().fail(error)
        self._pieces.put(_END)

    def pieces(self, gone: Callable[[], bool]) -> Iterator[Any]:
        """Yield the pieces as they come. Raises what `result` raises."""
        try:
            while (piece := self._next(gone)) is not _END:
                yield piece
            self.result(gone)
        finally:
            self.abandoned = True

    def _next(self, gone: Callable[[], bool]) -> Any:
        while not gone():
            with suppress(queue.Empty):
                return self._pieces.get(timeout=_LOOK)
        raise Refused("the client has left", GONE)


_END = object()


class Batch(Job):
    """A call for several items, which may be made together with those of other requests with the same `key`."""

    def __init__(self, key: object, call: Callable[[list[Any]], list[Any]], items: Sequence[Any]) -> None:
        super().__init__(list)
        self.key = key
        self.call = call
        self.items = list(items)
        self.arrived = time.monotonic()
        self._taken = 0
        self._results: list[Any] = []

    @property
    def left(self) -> int:
        """Items that nobody has taken to work on yet."""
        return len(self.items) - self._taken

    def take(self, most: int) -> list[Any]:
        """Return the next items, so many at most."""
        part = self.items[self._taken : self._taken + most]
        self._taken += len(part)
        return part

    def give(self, results: Sequence[Any]) -> None:
        """Take the results of the items taken last; with those of all items the job is done."""
        self._results.extend(results)
        if len(self._results) == len(self.items):
            self.finish(self._results)

    def fail(self, error: BaseException) -> None:
        """End with the first failure: what is left of the items is not worked on."""
        self._taken = len(self.items)
        super().fail(error)
