"""Pinned models that can never be loaded keep no room from anybody. The law is in test_plan_properties.py."""

from textwrap import dedent

import pytest

from reconciler.core.plan import plan
from reconciler.core.types import LedgerEntry, Manifest, Preflight, Reason, World
from worlds import MIB, NOW, manifest, model, pinned, running, text, waiting, warm, world


def expect(wanted: Manifest, seen: World, lines: str) -> None:
    assert text(plan(wanted, seen, NOW)) == dedent(lines).strip()


def test_one_that_is_larger_than_all_there_is_leaves_the_others_their_room() -> None:
    wanted = manifest(pinned("chat", 1100), warm("code", 300), model("whisper", 200))
    expect(
        wanted,
        world(demands=[waiting("whisper")]),
        """
        + whisper needs 200 (Demanded) -> 800
        + code needs 300 (Warm) -> 500
        ! chat (NeverFits)
        """,
    )


@pytest.mark.parametrize(
    "blocked",
    [
        {"preflights": [Preflight("chat", reason=Reason.NOT_STARTABLE, message="its file is missing")]},
        {"ledger": [LedgerEntry("chat", "chat-v1", failures=1, retry_at=NOW + 9)]},
    ],
)
def test_one_that_is_only_blocked_for_now_keeps_its_claim(blocked: dict[str, list[Preflight]]) -> None:
    made = plan(manifest(pinned("chat", 800), model("code", 300)), world(**blocked), NOW)  # type: ignore[arg-type]
    verdict = made.verdict("code")
    assert verdict is not None
    assert verdict.reason == Reason.NEVER_FITS


def test_of_two_that_do_not_fit_together_the_more_important_one_is_loaded() -> None:
    wanted = manifest(
        pinned("a", 600), pinned("b", 600, priority=750), model("small", 400), model("big", 401)
    )
    expect(
        wanted,
        world(),
        """
        + b needs 600 (Pinned) -> 400
        ! a (NeverFits)
        . big (NeverFits)
        . small (NotWanted)
        """,
    )


def test_one_that_runs_is_not_given_up_for_a_more_important_one() -> None:
    wanted = manifest(pinned("a", 600), pinned("b", 600, priority=750))
    expect(wanted, world(running("a", 600)), "= a (Pinned)\n! b (NeverFits)")


def test_a_peak_for_which_there_is_room_only_alone_counts() -> None:
    """Were the second one let in, the first could not be loaded again after it died."""
    wanted = manifest(pinned("a", 400, peak=600 * MIB), pinned("b", 500, priority=250))
    expect(wanted, world(), "+ a needs 600 (Pinned) -> 600\n! b (NeverFits)")


def test_new_settings_too_large_for_the_machine_reserve_nothing_either() -> None:
    wanted = manifest(pinned("chat", 1100, digest="chat-v2"), model("code", 700))
    expect(
        wanted,
        world(running("chat", 300), demands=[waiting("code")]),
        """
        + code needs 700 (Demanded) -> 0
        ! chat (NeverFits)
        """,
    )


def test_what_shrinks_makes_room_for_what_grows() -> None:
    wanted = manifest(
        pinned("grows", 700, digest="grows-v2", priority=900), pinned("shrinks", 200, digest="shrinks-v2")
    )
    seen = world(running("grows", 300), running("shrinks", 500))
    made = plan(wanted, seen, NOW)
    assert all(v.reason != Reason.NEVER_FITS for v in made.verdicts)
    wanted = manifest(pinned("grows", 700, digest="grows-v2", priority=900), pinned("keeps", 500))
    made = plan(wanted, world(running("grows", 300), running("keeps", 500)), NOW)
    verdict = made.verdict("grows")
    assert verdict is not None
    assert verdict.reason == Reason.NEVER_FITS


def test_a_model_that_runs_on_a_file_that_is_gone_says_that_it_could_not_be_started_again() -> None:
    gone = Preflight("chat", reason=Reason.NOT_STARTABLE, message="the weights /w do not exist")
    verdict = plan(
        manifest(model("chat")), world(running("chat", 100, idle=5), preflights=[gone]), NOW
    ).verdict("chat")
    assert verdict is not None
    assert verdict.detail == "idle 5.0s; could not be started again: the weights /w do not exist"
