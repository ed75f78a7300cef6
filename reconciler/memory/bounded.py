"""Calls that may never come back: a driver that has hung keeps whoever asks it, and cannot be interrupted."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class Bounded:
    """Makes one call at a time on a thread of its own and waits for it no longer than `seconds`.

    A call that is given up goes on in the background, since nothing can end it; until it is back no other is made.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._hung: Future[object] | None = None

    def call(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises. Raises TimeoutError if it is not back in time."""
        if self._hung is not None:
            if not self._hung.done():
                raise TimeoutError
            self._hung = None
        future: Future[T] = Future()
        # A daemon thread: a hung driver must not keep the program from ending.
        Thread(target=_work, args=(future, work), name="bounded", daemon=True).start()
        try:
            return future.result(self._seconds)
        except TimeoutError:
            if not future.done():
                self._hung = future  # type: ignore[assignment]
            raise


def _work(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # the caller gets it, whatever it is
        future.set_exception(error)
