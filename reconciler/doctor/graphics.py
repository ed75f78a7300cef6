"""GPUs: which there are, whether we may use them, and how much of the memory they may take."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reconciler.core.memory import Memory
from reconciler.core.words import size
from reconciler.doctor.finding import Finding, cannot_tell, note, ok, warning

_PATTERNS: Final = ("dev/dri/renderD*", "dev/kfd", "dev/nvidia[0-9]*", "dev/nvidiactl")


def check_graphics(memory: Memory, root: Path = Path("/")) -> Iterator[Finding]:
    """Yield what is known of GPUs on Linux; `root` is where `dev/` is looked for. Blocks briefly."""
    devices = sorted(path for pattern in _PATTERNS for path in root.glob(pattern))
    closed = [f"/{path.relative_to(root)}" for path in devices if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        yield warning(
            "gpu",
            f"may not be used by this user: {', '.join(closed)}",
            "add the user to the groups of these devices (often `render` and `video`) and log in again",
        )
    yield from check_ceiling(memory, bool(devices))


def check_ceiling(memory: Memory, there: bool) -> Iterator[Finding]:
    """Yield how much of the memory GPUs may take. `there` = the system shows a GPU."""
    pool = memory.gpu
    if pool is None or pool.ceiling is None:
        if there:
            yield cannot_tell("gpu", "there is a GPU, and no probe tells how much of the memory it may use")
        else:
            yield note("gpu", "none found: models run on the CPU")
        return
    used = "" if pool.used is None else f", {size(pool.used)} in use"
    yield ok("gpu", f"may use {size(pool.ceiling)} of the memory{used} ({pool.source})")
