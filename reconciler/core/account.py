"""Who holds the machine's memory: our models, other programs, the kernel, and the rest that nobody owns up to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reconciler.core.memory import Memory
from reconciler.core.types import Instance

#: Share of the machine by which the unattributed part may grow before the account is not to be believed.
DOUBT: Final = 0.05


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The memory in use, in bytes, by who holds it. Warm pages count as available: the kernel may drop them."""

    total: int
    available: int
    #: Held by our models, what drivers hold for them included.
    models: int
    #: Resident mapped weights of our models, each file once; part of `available`.
    warm: int
    #: Held by all other programs.
    others: int
    #: Held by the kernel, and set aside as huge pages.
    kernel: int
    pools: int
    #: In use, and none of these: GPU drivers, balloons, what the kernel does not account for.
    unattributed: int


def warm_together(instances: Iterable[Instance]) -> int:
    """Return the warm bytes of all models, a file that several map counted once."""
    files: dict[str, int] = {}
    rest = 0
    for instance in instances:
        rest += max(0, (instance.warm or 0) - sum(f.size for f in instance.files))
        for file in instance.files:
            files[file.key] = max(file.size, files.get(file.key, 0))
    return rest + sum(files.values())


def breakdown(memory: Memory, instances: Iterable[Instance]) -> Breakdown | None:
    """Return who holds what, or None where the machine's kernel does not say enough.

    unattributed = (total - available) - programs - kernel - pools - compressed - what drivers hold for our models
    """
    host, running = memory.host, tuple(instances)
    if host is None:
        return None
    device = sum(i.device for i in running)
    models = sum(i.committed or 0 for i in running)
    named = host.programs + host.kernel + host.pools
    return Breakdown(
        total=host.total,
        available=host.available,
        models=models,
        warm=warm_together(running),
        others=max(0, host.programs - (models - device)),
        kernel=host.kernel,
        pools=host.pools,
        unattributed=max(0, host.total - host.available - named - device - (memory.stall.compressed or 0)),
    )


def doubtful(seen: Breakdown | None, lowest: int | None) -> int | None:
    """Return the bytes by which the unattributed part grew, if that is too much to believe the account; else None.

    `lowest` is the least it has been since the manager began.
    """
    if seen is None or lowest is None or seen.unattributed - lowest <= seen.total * DOUBT:
        return None
    return seen.unattributed - lowest
