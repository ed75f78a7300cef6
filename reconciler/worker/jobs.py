"""Pieces of work for the class, as the thread of a request hands them over and waits for them."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Callable

from .errors import GONE, Refused, told

#: Seconds between two looks whether the client is still there.
_LOOK = 0.25
#: Pieces of a stream that are made before the first of them is fetched.
_AHEAD = 64


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
        except (
            BaseException
        ) as error:  # signals are not told as exceptions here: each of them is the class's own
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


class Stream(Job):
    """A call that hands over an iterator: its pieces arrive one by one.

    The class waits while `_AHEAD` of them are not fetched: what a client reads slowly is not collected here. Whoever
    sends them gives up on a client that reads nothing at all. `most` pieces are made at most; None = all there are.
    """

    def __init__(self, call: Callable[[], Iterator[Any]], most: int | None = None) -> None:
        super().__init__(call)
        self._most = most
        self._pieces: queue.Queue[Any] = queue.Queue(_AHEAD)

    def perform(self) -> BaseException | None:
        """Make the call and hand over its pieces, until it ends or nobody wants them any more."""
        failure = self._run()
        if failure is None:
            self.finish(None)
        else:
            self.fail(failure)
        return failure

    def finish(self, result: Any) -> None:
        """Say that there are no more pieces."""
        super().finish(result)
        self._put(_END)

    def fail(self, error: BaseException) -> None:
        """Say that there are no more pieces, because of this."""
        super().fail(error)
        self._put(_END)

    def _run(self) -> BaseException | None:
        try:
            iterator = self._call()
            try:
                for piece in itertools.islice(iterator, self._most):
                    if not self._put(piece):
                        break
            finally:
                # One that has come to its end does nothing here; any other is told that it may put things away.
                if hasattr(iterator, "close"):
                    iterator.close()
        except BaseException as error:
            return error
        return None

    def _put(self, piece: Any) -> bool:
        """Hand a piece over as soon as there is room. Returns whether anybody wants more."""
        while not self.abandoned:
            with suppress(queue.Full):
                self._pieces.put(piece, timeout=_LOOK)
                return not self.abandoned
        return False

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
