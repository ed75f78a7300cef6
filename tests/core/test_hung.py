"""A process that hangs: it goes before anything else, whoever uses it, and its model comes back if it is wanted."""

from dataclasses import replace
from textwrap import dedent

import pytest

from reconciler.core.draining import overtaking, unneeded
from reconciler.core.machine import Evicting, Idle, begin
from reconciler.core.plan import plan
from reconciler.core.types import Demand, Evict, LedgerEntry, Manifest, Reason, World
from worlds import MIB, NOW, manifest, model, pinned, running, text, waiting, warm, world

WHY = "2 requests got nothing for 30s, and its process does nothing"
HUNG = running("a", 400, 60, hung=WHY)


def expect(wanted: Manifest, seen: World, lines: str) -> None:
    assert text(plan(wanted, seen, NOW)) == dedent(lines).strip()


@pytest.mark.parametrize(("kind", "reason"), [(warm, "Warm"), (pinned, "Pinned")])
def test_one_that_the_manifest_wants_is_replaced_in_one_plan(kind: type, reason: str) -> None:
    wanted = manifest(kind("a", 400))
    expect(wanted, world(HUNG), f"- a frees 400 (Hung) -> 1000\n+ a needs 400 ({reason}) -> 600")
    verdict = plan(wanted, world(HUNG), NOW).verdict("a")
    assert verdict is not None
    assert (verdict.outcome.value, verdict.reason, verdict.detail) == ("-/+", "Hung", WHY)


def test_one_that_nobody_wants_just_goes() -> None:
    expect(manifest(model("a", 400)), world(HUNG), "- a frees 400 (Hung) -> 1000")
    verdict = plan(manifest(model("a", 400)), world(HUNG), NOW).verdict("a")
    assert verdict is not None
    assert (verdict.outcome.value, verdict.size, verdict.detail) == ("-", 400 * MIB, WHY)


def test_who_waits_is_served_by_the_next_process() -> None:
    seen = world(HUNG, demands=[waiting("a", 3)])
    expect(manifest(model("a", 400)), seen, "- a frees 400 (Hung) -> 1000\n+ a needs 400 (Demanded) -> 600")


def test_it_counts_as_a_crash() -> None:
    """Its next try is due when the ledger says."""
    entry = LedgerEntry("a", "a-v1", failures=1, retry_at=NOW + 2, last_error="it hung: it was silent")
    seen = world(HUNG, demands=[waiting("a")], ledger=[entry])
    expect(manifest(model("a", 400)), seen, "- a frees 400 (Hung) -> 1000")
    after = plan(manifest(model("a", 400)), world(demands=[waiting("a")], ledger=[entry]), NOW).verdict("a")
    assert after is not None
    assert (after.reason, after.retry_in) == (Reason.BACKING_OFF, 2.0)
    assert "it hung: it was silent" in after.detail


@pytest.mark.parametrize(
    "use",
    [
        Demand("a", active=1),
        Demand("a", held=1),
        Demand("a", jobs=1),
        Demand("a", active=1, spared=Reason.HUNG),
        Demand("a", active=1, spared=Reason.REMOVED),
    ],
)
@pytest.mark.parametrize("wanted", [manifest(pinned("a", 400)), manifest(model("a", 400)), manifest()])
def test_it_goes_whoever_uses_it_and_those_who_still_get_something_may_end(
    wanted: Manifest, use: Demand
) -> None:
    seen = world(HUNG, demands=[use])
    step = plan(wanted, seen, NOW).head
    assert isinstance(step, Evict)
    assert (step.reason, step.drain, step.sleep, step.detail) == (Reason.HUNG, True, False, WHY)
    state = begin(Idle(), plan(wanted, seen, NOW), seen, {m.name: m for m in wanted.models}, NOW)
    assert isinstance(state, Evicting)
    assert not unneeded(step, wanted, seen, NOW)
    assert overtaking(step, wanted, seen, NOW - 60, NOW) == ""


def test_it_goes_although_the_memory_is_unknown_and_before_all_others() -> None:
    other = running("b", 300, 5000)
    wanted = manifest(model("a", 400), model("b", 300, idle_ttl=60.0))
    blind = world(HUNG, other, available_mib=None)
    assert next((s.model, s.reason) for s in plan(wanted, blind, NOW).steps) == ("a", Reason.HUNG)
    assert [s.model for s in plan(wanted, world(HUNG, other), NOW).steps] == ["a", "b"]


def test_to_be_suspected_changes_nothing() -> None:
    suspected = replace(HUNG, hung="", suspect=WHY)
    for wanted in (manifest(pinned("a", 400)), manifest(model("a", 400))):
        assert plan(wanted, world(suspected), NOW) == plan(wanted, world(replace(HUNG, hung="")), NOW)
