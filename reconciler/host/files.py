"""How many files we may have open: each client is one, and each request to an engine another.

Login shells and service managers allow 1024 unless told otherwise, because programs that use select() break above
that. We do not, so we take what we may; what we start gets the limit back that we were started with.
"""

import resource
import sys
from contextlib import suppress
from typing import Final

#: Files that are enough: the limits on clients and queues are far below. More would make some programs slow that close
#: every number up to the limit.
ENOUGH: Final = 65536
#: The most macOS grants where it says "unlimited" (OPEN_MAX).
_MACOS_MOST: Final = 10240

#: The soft limit before it was raised; None = it was not.
_given: int | None = None


def attainable() -> int:
    """Return how many files we may have open once `take_more` has been called."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MACOS_MOST if sys.platform == "darwin" else ENOUGH
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    return most if soft == resource.RLIM_INFINITY else max(soft, most)


def take_more() -> int:
    """Raise the soft limit of this process as far as is useful and allowed; return what it is now."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = attainable()
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return wanted if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # the system has a lower mark of its own
        return soft
    _given = _given if _given is not None else soft
    return wanted


def give_back(pid: int) -> None:
    """Give a process just started the limit that we were started with. On macOS, where nobody can, it keeps ours."""
    if _given is None or not hasattr(resource, "prlimit"):
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError):  # it has ended already, or is another user's by now
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_given, hard))
