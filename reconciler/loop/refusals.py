"""Which waiting requests are answered with an error now, because waiting on would not help."""

from reconciler.core.types import Plan, Reason, Verdict
from reconciler.leases import Refusal

#: A model that is tried again sooner than this is waited for.
SHORT_BACKOFF = 5.0


def refusals(plan: Plan) -> dict[str, Refusal]:
    """Return model -> refusal for every model whose verdict no waiting will change soon."""
    found = {v.model: refusal(v) for v in plan.verdicts}
    return {model: r for model, r in sorted(found.items()) if r is not None}


def refusal(verdict: Verdict) -> Refusal | None:
    """Return the answer that one verdict means for those who wait, or None if they should wait on."""
    text = f"model {verdict.model!r}: {verdict.detail}"
    match verdict.reason:
        case Reason.NEVER_FITS:
            return Refusal(507, "never_fits", text)
        case Reason.NOT_STARTABLE | Reason.SIZE_UNKNOWN:
            return Refusal(503, "not_startable", text)
        case Reason.MEMORY_UNKNOWN:
            return Refusal(503, "insufficient_memory", text, retry_after=10.0)
        case Reason.BACKING_OFF if (verdict.retry_in or 0.0) > SHORT_BACKOFF:
            return Refusal(503, "backing_off", text, retry_after=verdict.retry_in)
        case _:
            return None
