"""Whether the machine itself went down again and again, from what is on record of the manager's runs."""

from dataclasses import dataclass

import pytest

from reconciler.core.safe_mode import LOST_BOOTS, lost, restrained, why
from reconciler.core.types import Preflight, Reason, Residency
from worlds import manifest, model, world


@dataclass(frozen=True)
class Run:
    boot_id: str
    risk: str = "loading chat"
    ended: bool = False
    left_safe_mode: bool = False


NOW = Run("now", "")


@pytest.mark.parametrize(
    ("runs", "count"),
    [
        ([], 0),
        ([Run("a"), Run("b"), Run("c")], 3),
        ([Run("a"), Run("b"), Run("c"), NOW], 3),
        # The manager alone crashed in the boot that goes on.
        ([Run("a"), Run("b"), Run("now"), Run("now"), NOW], 2),
        ([Run("now")] * 9, 0),
        # It crashed and came back before the machine went down: the last run of a boot counts.
        ([Run("a"), Run("a"), Run("b"), Run("b", ""), Run("c")], 1),
        # A boot that ended well, or in which nothing was risked, ends the row.
        ([Run("a"), Run("b", ended=True), Run("c"), NOW], 1),
        ([Run("a"), Run("b"), Run("c", ""), NOW], 0),
        ([Run("a"), Run(""), Run("c"), NOW], 1),
    ],
)
def test_boots_that_ended_with_the_machine(runs: list[Run], count: int) -> None:
    assert len(lost(runs, "now")) == count
    assert bool(why(runs, "now")) is (count >= LOST_BOOTS)


def test_nothing_is_known_where_the_system_names_no_boot() -> None:
    assert why([Run("a"), Run("b"), Run("c")], "") == ""


def test_left_is_left_until_the_machine_goes_down_again() -> None:
    runs = [Run("a"), Run("b"), Run("c"), Run("now", "", left_safe_mode=True), NOW]
    assert why(runs, "now") == ""
    assert why([*runs[:3], Run("d", left_safe_mode=True), NOW], "now")


def test_the_sentence_names_what_was_done_last() -> None:
    text = why([Run("a"), Run("b"), Run("c", "loading coder"), NOW], "now")
    assert text.startswith(
        "the machine went down 3 times in a row while models were loaded or memory was short"
    )
    assert "(the last time: loading coder)" in text
    assert "`reconcile resume`" in text


def test_only_pinned_models_can_be_started() -> None:
    wanted = manifest(model("a", residency=Residency.PINNED), model("b"), model("c"))
    seen = world(preflights=[Preflight("a"), Preflight("b"), Preflight("c", "NoFile", "gone")]).observation
    assert restrained(seen, wanted, "") is seen
    found = {p.model: (p.reason, p.message) for p in restrained(seen, wanted, "why").preflights}
    assert found == {
        "a": (None, ""),
        "b": (Reason.NOT_STARTABLE, "safe mode: why"),
        "c": ("NoFile", "gone"),
    }
