"""Which verdicts answer waiting requests at once, with what."""

import pytest

from reconciler.core.types import Account, LedgerEntry, Manifest, ModelSpec, Outcome, Plan, Reason, Verdict
from reconciler.gateway.errors import CODES
from reconciler.loop.refusals import PATIENT_BACKOFF, SHORT_BACKOFF, once_ready, refusals

#: Every reason that can stand behind a waiting request: (status, code), or None = it waits on.
ANSWERS: dict[Reason, tuple[int, str] | None] = {
    Reason.NEVER_FITS: (507, "never_fits"),
    Reason.NOT_STARTABLE: (503, "not_startable"),
    Reason.SIZE_UNKNOWN: (503, "not_startable"),
    Reason.MEMORY_UNKNOWN: (503, "insufficient_memory"),
    Reason.BACKING_OFF: (503, "backing_off"),
    Reason.GIVEN_UP: (503, "given_up"),
    Reason.VICTIMS_BUSY: None,
    Reason.OUTRANKED: None,
    Reason.INSUFFICIENT_MEMORY: None,
    Reason.DEMANDED: None,
    Reason.LOADING: None,
}


def made(*verdicts: Verdict) -> Plan:
    return Plan(1, 1, Account(), (), verdicts)


@pytest.mark.parametrize("reason", ANSWERS)
def test_what_no_waiting_changes_is_answered_at_once(reason: Reason) -> None:
    verdict = Verdict("m", Outcome.BLOCKED, reason, detail="the detail", retry_in=60.0)
    answer, found = ANSWERS[reason], refusals(made(verdict)).get("m")
    assert (found and (found.status, found.code)) == answer
    if found is not None:
        assert found.message == "model 'm': the detail"
        assert CODES[found.code].status == found.status


def test_a_model_that_is_tried_again_soon_is_waited_for() -> None:
    soon = Verdict("m", Outcome.BLOCKED, Reason.BACKING_OFF, retry_in=SHORT_BACKOFF)
    late = Verdict("n", Outcome.BLOCKED, Reason.BACKING_OFF, retry_in=SHORT_BACKOFF + 1)
    found = refusals(made(soon, late))
    assert list(found) == ["n"]
    assert found["n"].retry_after == SHORT_BACKOFF + 1


def test_a_model_that_was_ready_once_is_waited_for_longer() -> None:
    soon = Verdict("m", Outcome.BLOCKED, Reason.BACKING_OFF, retry_in=PATIENT_BACKOFF)
    late = Verdict("n", Outcome.BLOCKED, Reason.BACKING_OFF, retry_in=PATIENT_BACKOFF + 1)
    never = Verdict("o", Outcome.BLOCKED, Reason.BACKING_OFF, retry_in=PATIENT_BACKOFF)
    assert list(refusals(made(soon, late, never), {"m", "n"})) == ["n", "o"]


def test_ready_once_is_who_was_with_the_settings_of_today() -> None:
    manifest = Manifest(tuple(ModelSpec(name, "d") for name in ("a", "b", "c")))
    ledger = (
        LedgerEntry("a", "d", load_seconds=1.0),
        LedgerEntry("b", "d", failures=1),
        LedgerEntry("c", "old", load_seconds=1.0),
        LedgerEntry("gone", "d", load_seconds=1.0),
    )
    assert once_ready(manifest, ledger) == {"a"}
