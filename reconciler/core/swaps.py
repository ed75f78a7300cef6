"""Who made room for whom lately: what tells that two models are used at once and take turns in the memory."""

from collections.abc import Iterator
from typing import Final

from reconciler.core.types import Evict, Reason, Swap

#: Seconds for which a swap says that both of its models are in use.
WINDOW: Final = 600.0
#: Most that are kept: more tell nothing that these do not.
KEPT: Final = 64


def noted(swaps: tuple[Swap, ...], step: Evict, now: float) -> tuple[Swap, ...]:
    """Return the swaps of the last `WINDOW` seconds and, if a model went for another with `step`, that one."""
    made = step.reason is Reason.MAKE_ROOM and step.for_model is not None
    new = (Swap(step.model, step.for_model or "", now),) if made else ()
    return (*recent(swaps, now), *new)[-KEPT:]


def recent(swaps: tuple[Swap, ...], now: float) -> tuple[Swap, ...]:
    """Return the swaps of the last `WINDOW` seconds."""
    return tuple(s for s in swaps if now - s.at <= WINDOW)


def taking_turns(swaps: tuple[Swap, ...], now: float) -> list[tuple[str, ...]]:
    """Return the groups of models each of which lately went, directly or not, for each other one; names sorted."""
    goes_for: dict[str, set[str]] = {}
    for swap in recent(swaps, now):
        goes_for.setdefault(swap.victim, set()).add(swap.for_model)
    reached = {name: set(_reach(goes_for, name)) for name in goes_for}
    groups = {
        tuple(sorted(other for other in there if name in reached.get(other, ())))
        for name, there in reached.items()
    }
    return sorted(group for group in groups if len(group) > 1)


def _reach(goes_for: dict[str, set[str]], name: str) -> Iterator[str]:
    """Yield everybody a model went for, and whom those went for, and so on; itself only if that leads back."""
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        for other in sorted(goes_for.get(ahead.pop(), ())):
            if other not in seen:
                seen.add(other)
                ahead.append(other)
                yield other
