"""The bytes that a launch had, for what is written down of its end."""

from reconciler.core.crashes import FailureKind
from reconciler.loop.launches import Launch


def had(launch: Launch | None, given: int) -> int:
    """Return the bytes that a launch was given, or held at its end if that was more."""
    if launch is None:
        return 0
    return max(given, launch.holds or 0, (launch.held.peak or 0) + (launch.warm or 0))


def too_little(launch: Launch | None, given: int, kind: FailureKind) -> int:
    """Return the bytes with which a launch failed: those it had, or the limit of its own that it passed."""
    if kind is not FailureKind.OVER_LIMIT:
        return had(launch, given)
    spec = launch.spec if launch is not None else None
    return (spec.limits.memory or 0) if spec is not None else 0
