"""Neither a file nor a thread is to be had: what the loop wanted to look at stays unknown, and nothing is done."""

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import anyio
import structlog

T = TypeVar("T")

#: The system, or our limits, give no more for now: another time they will.
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
#: Seconds between two tries of what cannot be left undone.
AGAIN: Final = 0.5
_NO_THREAD: Final = "can't start new thread"

log = structlog.get_logger("reconciler.loop")


def scarcity(error: BaseException) -> str:
    """Return what the system has no more of, for people; "" if the error says anything else."""
    if isinstance(error, BaseExceptionGroup):
        found = [scarcity(one) for one in error.exceptions]
        return found[0] if all(found) else ""
    if isinstance(error, OSError) and error.errno in _PASSING:
        return error.strerror or str(error)
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return "no thread can be started: the limit of processes (ulimit -u, pids.max) is reached"
    return ""


async def insist(work: Callable[[], Awaitable[T]], what: str) -> T:
    """Return what `work` returns, tried again for as long as the system gives nothing to do it with.

    For what cannot be left undone; `what` is said once, for people. Anything else is raised.
    """
    short = False
    while True:
        try:
            return await work()
        except Exception as error:
            why = scarcity(error)
            if not why:
                raise
            if not short:
                log.error("it is tried again until it can be done", what=what, error=why)
            short = True
        await anyio.sleep(AGAIN)


@contextmanager
def scarce_as(refused: Callable[[str], Exception]) -> Iterator[None]:
    """Have what fails because the system gives nothing to do it with fail as `refused` says of that."""
    try:
        yield
    except Exception as error:
        if why := scarcity(error):
            raise refused(why) from error
        raise


class Looking:
    """Has something looked at over and over, and outlives that the system gives nothing to look with."""

    def __init__(self, what: str) -> None:
        #: For people: what is looked at.
        self._what = what
        self._short = False

    async def attempt(self, look: Callable[[], Awaitable[T]], instead: T) -> T:
        """Return what `look` returns, or `instead` while there is nothing to look with. Anything else is raised.

        It is said when it begins and when it ends.
        """
        try:
            result = await look()
        except Exception as error:
            why = scarcity(error)
            if not why:
                raise
            if not self._short:
                log.error(
                    "it cannot be looked at: nothing is done, models serve on", what=self._what, error=why
                )
            self._short = True
            return instead
        if self._short:
            log.info("it can be looked at again", what=self._what)
        self._short = False
        return result
