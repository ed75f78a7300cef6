"""Whether an engine is asked about another machine than the one it is asked on.

It is no argument, since it concerns one line of one estimate out of sixteen adapters, and every adapter would have to
hand it on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_ELSEWHERE: Final = ContextVar("elsewhere", default=False)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Within it, what this machine has says nothing of the machine that is meant."""
    token = _ELSEWHERE.set(True)
    try:
        yield
    finally:
        _ELSEWHERE.reset(token)


def is_elsewhere() -> bool:
    """Return whether another machine is meant."""
    return _ELSEWHERE.get()
