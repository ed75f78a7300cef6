"""Why a launch failed, in one sentence: nothing is told twice in it."""

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.core.crashes import FailureKind, Starved
from reconciler.core.launch import LaunchSpec
from reconciler.host import Exit
from reconciler.loop.failures import describe
from reconciler.memory.oom_kills import Kills


@pytest.mark.parametrize(
    ("engine", "line", "said"),
    [
        ("python", "worker: entry: there is no module named bag", "there is no module named bag"),
        ("command", "something else", "its last line: something else"),
    ],
)
def test_a_last_line_that_the_explanation_has_is_left_out(engine: str, line: str, said: str) -> None:
    logs: Any = SimpleNamespace(tail=lambda model, lines: ["loading", line])
    spec = LaunchSpec("m", engine)
    assert describe(spec, Exit(code=9), logs, "m", "it died").text == f"it died: exit code 9; {said}"


LOGS: Any = SimpleNamespace(tail=lambda model, lines: ["all is well"])
SPEC = LaunchSpec("m", "command")


@pytest.mark.parametrize(
    ("starved", "kind", "said"),
    [
        (Starved.YES, FailureKind.KILLED_BY_KERNEL, "the kernel ended it, for memory had run out"),
        (Starved.PROBABLY, FailureKind.KILLED_BY_KERNEL, "the kernel probably ended it: for want of memory"),
        (
            Starved.NO,
            FailureKind.KILLED,
            "somebody ended it, neither reconcile nor the kernel for want of memory",
        ),
        (
            Starved.UNKNOWN,
            FailureKind.KILLED,
            "it was killed (KILL), possibly because the machine ran out of memory",
        ),
    ],
)
@pytest.mark.parametrize("ended", [Exit(signal=9), Exit(code=137)])
def test_who_killed_it(ended: Exit, starved: Starved, kind: FailureKind, said: str) -> None:
    failure = describe(SPEC, ended, LOGS, "m", "it died", watch=lambda *, ours: starved)
    assert failure.kind is kind
    assert said in failure.text


def test_only_who_was_ended_itself_was_surely_in_our_own_group() -> None:
    asked = []

    def watch(*, ours: bool) -> Starved:
        asked.append(ours)
        return Starved.NO

    for ended in (Exit(signal=9), Exit(code=137)):
        describe(SPEC, ended, LOGS, "m", "it died", watch=watch)
    assert asked == [True, False]


@pytest.mark.parametrize(
    ("kills", "kind"),
    [
        (Kills(0), FailureKind.KILLED),
        (Kills(1), FailureKind.KILLED_BY_KERNEL),
        (Kills(1, 60 << 20), FailureKind.OVER_LIMIT),
    ],
)
@pytest.mark.parametrize("elsewhere", [Starved.YES, Starved.NO])
def test_the_control_group_of_its_own_rules(kills: Kills, kind: FailureKind, elsewhere: Starved) -> None:
    """Whatever the kernel did to others in the same moment."""
    failure = describe(
        SPEC, Exit(signal=9), LOGS, "m", "it died", watch=lambda *, ours: elsewhere, kills=kills
    )
    assert failure.kind is kind


def test_what_its_own_limit_ended_is_told_as_that() -> None:
    failure = describe(SPEC, Exit(code=1), LOGS, "m", "it died", kills=Kills(2, 60 << 20))
    assert failure.kind is FailureKind.OVER_LIMIT
    assert failure.text == (
        "it died: exit code 1; killed by its own limits.memory of 60 MiB: raise it or lower the context;"
        " its last line: all is well"
    )


def test_the_counters_are_not_asked_for_what_no_signal_ended() -> None:
    def never(*, ours: bool) -> Starved:
        raise AssertionError

    logs: Any = SimpleNamespace(tail=lambda model, lines: ["terminate called: std::bad_alloc"])
    failure = describe(LaunchSpec("m", "command"), Exit(signal=6), logs, "m", "it died", watch=never)
    assert failure.kind is FailureKind.OUT_OF_MEMORY
