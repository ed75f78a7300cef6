"""What the models take, as far as their files tell, and how much room there is on the machine."""

import time

from reconciler.core import book
from reconciler.core.memory import Memory
from reconciler.host.ask import run_command
from reconciler.loop.preflights import examine
from reconciler.manifest.applied import Applied
from reconciler.memory.machine import open_machine


def known(applied: Applied, memory: Memory | None) -> tuple[dict[str, int], int | None]:
    """Return bytes by model, of those whose size is known, and the bytes they may have together. Blocks.

    `memory` None = that of this machine.
    """
    found: dict[str, int] = {}
    for spec in applied.manifest.models:
        steady = spec.steady
        if steady is None:
            steady = examine(applied.launches[spec.name]).steady
        if steady is not None:
            found[spec.name] = steady
    memory = memory or open_machine(run_command).read(time.monotonic())
    return found, book.budget(applied.manifest, memory)
