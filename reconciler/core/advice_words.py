"""Advice as sentences."""

from math import exp
from typing import Final

from reconciler.core.advice_types import Change, ChangeKind, Rivalry
from reconciler.core.words import size, span

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
#: Ways out of a rivalry that are named.
_WAYS: Final = 2


def at_least(count: int) -> str:
    """Return bytes as text that is never less than they are.

    >>> at_least(3 << 30), at_least((3 << 30) + 1), at_least(12 << 20), at_least((12 << 20) + 1)
    ('3.0 GiB', '3.1 GiB', '12 MiB', '13 MiB')
    """
    return size(-(-count // _MIB) * _MIB) if count < _GIB else f"{-(-count * 10 // _GIB) / 10:.1f} GiB"


def within_horizon(returns: float) -> float:
    """Return the probability (0-1) of a use within 15 minutes, for uses that come as if by chance.

    `returns` is the mean of exp(-t / 900 s); with a rate r of uses a second that is r / (r + 1/900 s), and the
    probability of at least one in 900 s is 1 - exp(-900 s x r).

    >>> round(within_horizon(0.5), 2), within_horizon(0), within_horizon(1)
    (0.63, 0.0, 1.0)
    """
    return 1.0 if returns >= 1 else 1 - exp(-returns / (1 - returns))


def change_text(change: Change) -> str:
    """Return a change in words that go on from `it would be loaded`."""
    text = _of_machine(change) if change.model is None else _of_model(change, change.model)
    return text if change.at_once else f"{text}, once what is in use leaves room for it"


def _of_machine(change: Change) -> str:
    amount = at_least(change.bytes)
    match change.kind:
        case ChangeKind.WAIT:
            return f"in {span(change.seconds or 0.0)}: {change.why}"
        case ChangeKind.MEMORY:
            return f"with {amount} more in machine.memory"
        case ChangeKind.RESERVE:
            return f"with {amount} less in machine.reserve"
        case ChangeKind.HARD_MARK:
            return f"with machine.watermarks.hard at {round((change.mark or 0.0) * 100)} %"
        case ChangeKind.OTHERS:
            return f"once other programs give back {amount}"
    raise ValueError(f"a change of kind {change.kind} is about a model")


def _of_model(change: Change, name: str) -> str:
    match change.kind:
        case ChangeKind.ASK:
            return f"after `reconcile load {name}`: it is due at once then"
        case ChangeKind.MAY_PREEMPT:
            return f"with may_preempt: {change.may_preempt} for {name}"
        case ChangeKind.PRIORITY:
            return f"with priority {change.priority} for {name}"
        case ChangeKind.CONTEXT:
            return f"with {less_text(change)}"
        case ChangeKind.RELEASE:
            return f"once no lease holds {name} (`reconcile release`)"
        case ChangeKind.UNPIN:
            return f"with {name} warm instead of pinned"
    raise ValueError(f"a change of kind {change.kind} is about the machine")


def less_text(change: Change) -> str:
    """Return how much less of which model: in tokens where those are known."""
    amount = at_least(change.bytes)
    if change.tokens is None:
        return f"{amount} less for {change.model} (less context, or smaller weights)"
    return (
        f"{amount} less context for {change.model} ({change.tokens} tokens less, {change.tokens_left} left)"
    )


def rivalry_text(rivalry: Rivalry) -> str:
    """Return who does not fit together, and what would change that."""
    names = _listed(rivalry.models)
    head = f"{names} do not fit together: they lack {at_least(rivalry.short)}"
    ways = [_way(change) for change in rivalry.changes]
    all_of_them = "both" if len(rivalry.models) == 2 else "all"
    if rivalry.together:
        parts = [_way(change) for change in rivalry.together]
        ways = [f"{', '.join(parts[:-1])} and {parts[-1]}", *ways]
    if not ways:
        return f"{head}, more than their contexts could do without"
    return f"{head}; {' or '.join(ways[:_WAYS])} would fit {all_of_them}"


def _way(change: Change) -> str:
    if change.kind is ChangeKind.CONTEXT:
        return less_text(change)
    return f"{at_least(change.bytes)} more in machine.memory"


def hint_text(model: str, change: Change) -> str:
    """Return what would help a model that somebody waits for."""
    return f"{model} would be loaded {change_text(change)}"


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
