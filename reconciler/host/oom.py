"""Whom the kernel ends first when memory runs out all the same: the model being loaded, then others, us last.

Without that it takes the largest, which is a model that serves, for the mistake of one that is being loaded.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from reconciler.core.launch import Limits

#: Added to a process's badness, 0-1000. Raising it needs no right, nor does lowering it again down to where it was.
LOADING: Final = 800
SERVING: Final = 300


def score(limits: Limits, otherwise: int) -> int:
    """Return the preference that the manifest states for a model, or `otherwise`."""
    return otherwise if limits.oom_score_adj is None else limits.oom_score_adj


def prefer(pids: Iterable[int], score: int) -> None:
    """Have the kernel end `pids` by this preference. Where the system knows no such thing, nothing happens."""
    for pid in sorted(pids):
        # Gone already, or another user's: then it is none of ours to be named first.
        with suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text(f"{score}\n")
