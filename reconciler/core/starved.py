"""What a launch is charged for a while that ran out of memory: more than it had. Pure; bytes, monotonic seconds."""

from dataclasses import replace

from reconciler.core import crashes
from reconciler.core.types import LedgerEntry


def raised(entry: LedgerEntry, had: int, now: float) -> LedgerEntry:
    """Return the entry after its last failure, at which the launch had so many bytes."""
    more = crashes.more(entry.kind, had) if entry.kind is not None else 0
    if more <= entry.raised:
        return entry
    return replace(entry, raised=more, raised_until=now + crashes.RAISE_SECONDS)


def eased(entry: LedgerEntry, now: float) -> LedgerEntry:
    """Return the entry without what it was charged for that, once it is long ago."""
    if entry.raised_until is None or entry.raised_until > now:
        return entry
    return replace(entry, raised=0, raised_until=None)


def until(entry: LedgerEntry, now: float) -> LedgerEntry:
    """Return the entry of an earlier run: what has no end any more ends as if it began now, and nothing later."""
    if entry.raised <= 0:
        return entry
    latest = now + crashes.RAISE_SECONDS
    return replace(
        entry, raised_until=latest if entry.raised_until is None else min(entry.raised_until, latest)
    )
