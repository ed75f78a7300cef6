"""Why launches fail, told apart, and how seldom what fails is tried."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import book, crashes, starved
from reconciler.core.crashes import Ending, FailureKind, kind_of
from reconciler.core.plan import plan
from reconciler.core.types import LedgerEntry, Preflight, Reason, Residency
from worlds import MIB, NOW, manifest, model, text, waiting, world

EMPTY = LedgerEntry("m", "d")
SAYS = FailureKind.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (Ending(signal=9, starved=True), FailureKind.KILLED_BY_KERNEL),
        (Ending(code=137, starved=True), FailureKind.KILLED_BY_KERNEL),
        (Ending(signal=9), FailureKind.KILLED),
        (Ending(code=143), FailureKind.KILLED),
        # What it logged before somebody ended it was not the reason.
        (Ending(signal=15, said=SAYS, starved=True), FailureKind.KILLED),
        # std::bad_alloc ends in an abort, which says less than the log.
        (Ending(signal=6, said=SAYS), SAYS),
        (Ending(signal=11), FailureKind.CRASHED),
        (Ending(code=139, starved=True), FailureKind.CRASHED),
        (Ending(code=1, said=FailureKind.BAD_FILE), FailureKind.BAD_FILE),
        (Ending(code=127), FailureKind.PROGRAM_MISSING),
        (Ending(code=0), FailureKind.EXITED_EARLY),
        (Ending(code=0, ready=True), FailureKind.CRASHED),
        (Ending(code=0, said=FailureKind.PORT_TAKEN), FailureKind.PORT_TAKEN),
        (Ending(), FailureKind.CRASHED),
    ],
)
def test_kinds(ending: Ending, kind: FailureKind) -> None:
    assert kind_of(ending) is kind


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_has_a_remedy_that_names_the_model(kind: FailureKind) -> None:
    assert "NAME" not in crashes.remedy(kind, "chat")
    assert crashes.remedy(kind, "chat")


KINDS = st.sampled_from(FailureKind)


@given(st.lists(KINDS, min_size=1, max_size=40), st.floats(0, 5))
def test_starts_that_fail_are_few_in_every_window(kinds: list[FailureKind], takes: float) -> None:
    """However a launch fails, again and again, each time as soon as it may be tried."""
    entry, now, starts = EMPTY, 0.0, []
    for kind in kinds:
        starts.append(now)
        failed = now + takes
        entry = book.failed(entry, "no", failed, kind)
        assert entry.retry_at is not None
        assert 0 <= entry.retry_at - failed <= crashes.GIVEN_UP_SECONDS + 1e-6
        assert book.waits(entry, None, failed) == (entry.retry_at > failed)
        assert not book.waits(entry, None, entry.retry_at)
        now = entry.retry_at
    assert all(sum(1 for other in starts if at <= other < at + 60) <= 6 for at in starts)
    assert all(sum(1 for other in starts if at <= other < at + 3600) <= 22 for at in starts)


@given(st.lists(KINDS, min_size=1, max_size=30), st.booleans())
def test_a_change_of_the_settings_or_a_wish_tries_at_once(kinds: list[FailureKind], wish: bool) -> None:
    entry = EMPTY
    for kind in kinds:
        entry = book.failed(entry, "no", NOW, kind)
    after = book.wished(entry) if wish else LedgerEntry("m", "other settings")
    assert not book.waits(after, None, NOW)
    assert not book.gave_up(after)


@pytest.mark.parametrize("kind", sorted(crashes.TO_MEND))
def test_what_no_repetition_mends_is_tried_when_it_changes(kind: FailureKind) -> None:
    began = book.begun(EMPTY, "llama 1", "w1")
    entry = book.failed(began, "no", NOW, kind)
    assert entry.retry_at == NOW + crashes.MENDING_FIRST
    assert book.gave_up(entry)
    same, weights = (
        Preflight("m", build="llama 1", weights="w1"),
        Preflight("m", build="llama 1", weights="w2"),
    )
    build = Preflight("m", build="llama 2", weights="w1")
    assert [book.waits(entry, p, NOW) for p in (None, same, weights, build)] == [True, True, False, False]
    again = book.begun(entry, "llama 1", "w2")
    assert (again.failures, again.retry_at, again.weights) == (0, None, "w2")
    # What heals by itself waits as long as it waits, whatever is written beside it.
    crash = book.failed(began, "no", NOW, FailureKind.CRASHED)
    assert book.waits(crash, weights, NOW)
    assert book.begun(crash, "llama 1", "w2").failures == 1


def test_the_looks_at_what_has_to_be_mended_become_seldom_too() -> None:
    waits = [crashes.wait(FailureKind.BAD_FILE, n) for n in range(1, 7)]
    assert waits == [300, 600, 1200, 2400, 3600, 3600]


def test_a_taken_port_is_exchanged_at_once_but_not_for_ever() -> None:
    assert [crashes.wait(FailureKind.PORT_TAKEN, n) for n in range(1, 5)] == [0, 4, 8, 16]


@pytest.mark.parametrize("kind", sorted(crashes.STARVED))
def test_what_ran_out_of_memory_is_charged_more_for_an_hour(kind: FailureKind) -> None:
    spec = model("m", 100)
    entry = book.failed(EMPTY, "no", NOW, kind, 100 * MIB)
    assert book.size(spec, None, entry) == 164 * MIB
    assert book.load_need(spec, None, entry, 164 * MIB) == 164 * MIB
    # With more it failed again: that was too little, too.
    entry = book.failed(entry, "no", NOW + 60, kind, 4000 * MIB)
    assert book.size(spec, None, entry) == 4400 * MIB
    assert starved.eased(entry, NOW + 60 + crashes.RAISE_SECONDS - 1) == entry
    calm = starved.eased(entry, NOW + 60 + crashes.RAISE_SECONDS)
    assert book.size(spec, None, calm) == 100 * MIB
    assert book.forgotten(entry).raised == 0
    assert book.begun(replace(entry, weights="w1"), "", "w2").raised == 0


def test_what_passes_its_own_limit_is_charged_that_and_given_up_soon() -> None:
    """However often it is tried, it never holds more; and it is not tried for ever."""
    spec, entry, seen = model("m", 100), EMPTY, []
    for _ in range(crashes.LIMITED_TRIES):
        assert not book.gave_up(entry)
        entry = book.failed(entry, "killed by its own limit", NOW, FailureKind.OVER_LIMIT, 400 * MIB)
        seen.append(book.size(spec, None, entry))
    assert seen == [400 * MIB] * crashes.LIMITED_TRIES
    assert book.gave_up(entry)
    assert entry.retry_at == NOW + crashes.GIVEN_UP_SECONDS
    made = plan(manifest(spec), world(demands=[waiting("m")], ledger=[replace(entry, digest="m-v1")]), NOW)
    assert text(made) == "! m (GivenUp)"
    [verdict] = made.verdicts
    assert verdict.detail == (
        "failed 3 times (OverLimit), given up after 3 times in a row until its weights, its program or its settings"
        " change, or somebody asks by `reconcile load`; one more look in 60m: killed by its own limit; what helps:"
        " raise `limits.memory`, for no try gets more than that; fewer tokens of context, fewer slots or a smaller"
        " quantisation need less"
    )


def test_one_that_was_stable_and_starved_comes_back_at_once_with_more() -> None:
    entry = book.crashed(EMPTY, "it died", 3600.0, 5, NOW, FailureKind.KILLED_BY_KERNEL, 1000 * MIB)
    assert (entry.failures, entry.retry_at, entry.raised) == (0, None, 1100 * MIB)


def test_no_clock_makes_a_wait_longer_than_it_would_be_from_now() -> None:
    """A time that was written by another clock neither fires early in the plan nor freezes a model."""
    entry = book.failed(EMPTY, "no", NOW, FailureKind.CRASHED)
    odd = replace(entry, retry_at=NOW + 1e9, raised=5, raised_until=NOW + 1e9)
    back = book.resumed(odd, NOW)
    assert (back.retry_at, back.raised_until) == (NOW + crashes.BACKOFF_FIRST, NOW + crashes.RAISE_SECONDS)
    assert book.resumed(entry, NOW + 0.5) == entry
    assert book.resumed(replace(entry, raised=5), NOW).raised_until == NOW + crashes.RAISE_SECONDS


def test_a_model_that_was_given_up_says_why_and_what_helps() -> None:
    entry = LedgerEntry("a", "a-v1")
    for _ in range(crashes.GIVE_UP_AFTER):
        entry = book.failed(entry, "exit code 3", NOW)
    made = plan(manifest(model("a", residency=Residency.PINNED)), world(ledger=[entry]), NOW + 1)
    verdict = made.verdict("a")
    assert verdict is not None
    assert (verdict.reason, verdict.retry_in) == (Reason.GIVEN_UP, crashes.GIVEN_UP_SECONDS - 1)
    assert verdict.detail == (
        "failed 10 times (Crashed), given up after 10 times in a row until its weights, its program or its settings"
        " change, or somebody asks by `reconcile load`; one more look in 59m: exit code 3;"
        " what helps: `reconcile logs a` shows what it said last"
    )
