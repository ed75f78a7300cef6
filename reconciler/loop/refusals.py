"""Which waiting requests are answered with an error now, because waiting on would not help."""

from collections.abc import Container

from reconciler.core.types import LedgerEntry, Manifest, Plan, Reason, Verdict
from reconciler.leases import Refusal

#: Seconds until the next try that are waited for: of a model that was never ready, and of one that was.
SHORT_BACKOFF = 5.0
PATIENT_BACKOFF = 30.0


def once_ready(manifest: Manifest, ledger: tuple[LedgerEntry, ...]) -> frozenset[str]:
    """Return the models that have been ready with the very settings they have now: what they died of may be over."""
    digests = {model.name: model.digest for model in manifest.models}
    return frozenset(
        e.model for e in ledger if e.load_seconds is not None and digests.get(e.model) == e.digest
    )


def refusals(plan: Plan, proved: Container[str] = ()) -> dict[str, Refusal]:
    """Return model -> refusal for every model whose verdict no waiting will change soon; `proved` were ready once."""
    found = {
        v.model: refusal(v, PATIENT_BACKOFF if v.model in proved else SHORT_BACKOFF) for v in plan.verdicts
    }
    return {model: r for model, r in sorted(found.items()) if r is not None}


def refusal(verdict: Verdict, patience: float = SHORT_BACKOFF) -> Refusal | None:
    """Return the answer that one verdict means for those who wait, or None if they should wait on.

    `patience` is how many seconds a next try may be away to be waited for.
    """
    text = f"model {verdict.model!r}: {verdict.detail}"
    match verdict.reason:
        case Reason.NEVER_FITS:
            return Refusal(507, "never_fits", text)
        case Reason.NOT_STARTABLE | Reason.SIZE_UNKNOWN:
            return Refusal(503, "not_startable", text)
        case Reason.MEMORY_UNKNOWN:
            return Refusal(503, "insufficient_memory", text, retry_after=10.0)
        case Reason.GIVEN_UP:
            return Refusal(503, "given_up", text)
        case Reason.BACKING_OFF if (verdict.retry_in or 0.0) > patience:
            return Refusal(503, "backing_off", text, retry_after=verdict.retry_in)
        case _:
            return None
