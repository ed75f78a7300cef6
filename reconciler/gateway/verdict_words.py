"""What the last plan says of a model, in the words of those who wait for it: no names of the loop's own."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from reconciler.core.types import Reason, Verdict

#: A plan that says so was made before anybody asked: what comes of it, the next one says.
_ASKED: Final = "was asked for just now"
_COMING: Final = "is about to be loaded"
_LEAVING: Final = "is being unloaded, and will be loaded again"
_PORT: Final = "waits for a port"
_ROOM: Final = "waits for room"
_CANNOT: Final = "cannot be loaded"
_AGAIN: Final = "will be started again"

#: What each reason means for a request that waits for the model; it follows the model's name.
WORDS: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.PINNED: _COMING,
        Reason.WARM: _COMING,
        Reason.DEMANDED: _COMING,
        Reason.REQUESTED: _COMING,
        Reason.PREWARM: _COMING,
        Reason.LOADING: "is being loaded",
        Reason.IN_USE: "is serving others",
        Reason.RESIDENT: "is in memory",
        Reason.NOT_WANTED: _ASKED,
        Reason.DISMISSED: _ASKED,
        Reason.NO_ROOM: _ASKED,
        Reason.MAKE_ROOM: "is being unloaded to make room for another model",
        Reason.LESS_LIKELY: "is being unloaded because another model is likelier to be used",
        Reason.OVER_BUDGET: "is being unloaded because models hold more memory than they may",
        Reason.REMOVED: "is being unloaded because it left the manifest",
        Reason.IDLE_EXPIRED: _LEAVING,
        Reason.TRANSIENT_DONE: _LEAVING,
        Reason.RESTART_DUE: _AGAIN,
        Reason.SHUTDOWN: "is being stopped with everything else",
        Reason.DRIFTED: f"{_AGAIN}, with its new settings",
        Reason.DUPLICATE: f"{_AGAIN} once its second process is gone",
        Reason.CRASHED: f"ended by itself, and {_AGAIN}",
        Reason.HUNG: f"hangs, is being stopped, and {_AGAIN}",
        Reason.BACKING_OFF: "failed to start",
        Reason.GIVEN_UP: _CANNOT,
        Reason.RESTING: "was unloaded a moment ago",
        Reason.MEMORY_PRESSURE: "waits until there is more free memory",
        Reason.MEMORY_UNKNOWN: "waits until the machine's memory can be read",
        Reason.VICTIMS_BUSY: _ROOM,
        Reason.VICTIMS_KEPT: "waits until a model that was loaded a moment ago may make way",
        Reason.VICTIM_STOPPING: "waits until another model has stopped",
        Reason.OUTRANKED: _ROOM,
        Reason.INSUFFICIENT_MEMORY: _ROOM,
        Reason.NO_PORT: _PORT,
        Reason.NEVER_FITS: _CANNOT,
        Reason.SIZE_UNKNOWN: _CANNOT,
        Reason.NOT_STARTABLE: _CANNOT,
    }
)
#: With these the plan's own sentence tells the client more.
_DETAILED: Final = frozenset({_ROOM, _PORT, _CANNOT})


def verdict_text(verdict: Verdict, age: float) -> str:
    """Return what becomes of a model: `chat waits for room: 512 MiB short until a model it may displace is idle`.

    `age` is that of the plan, in seconds.
    """
    words = WORDS[verdict.reason]
    if verdict.reason is Reason.BACKING_OFF:
        # How often, and whether it started at all: `died 3 times, tries again in ...`
        how_often, mark, _ = verdict.detail.partition(", tries again")
        words = how_often if mark else words
    text = f"{verdict.model} {words}"
    if words in _DETAILED and " " in verdict.detail:
        text += f": {verdict.detail}"
    if verdict.retry_in is not None:
        left = math.ceil(verdict.retry_in - age)
        text += f", tried again in {left} s" if left > 0 else ", tried again now"
    return text
