"""Why a launch failed, in one sentence: nothing is told twice in it."""

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec
from reconciler.host import Exit
from reconciler.loop.failures import describe


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


@pytest.mark.parametrize(
    ("starved", "kind", "said"),
    [
        (True, FailureKind.KILLED_BY_KERNEL, "the kernel ended it, for memory had run out"),
        (False, FailureKind.KILLED, "somebody ended it, neither reconcile nor the kernel for want of memory"),
        (None, FailureKind.KILLED, "it was killed (KILL), possibly because the machine ran out of memory"),
    ],
)
@pytest.mark.parametrize("ended", [Exit(signal=9), Exit(code=137)])
def test_who_killed_it(ended: Exit, starved: bool | None, kind: FailureKind, said: str) -> None:
    logs: Any = SimpleNamespace(tail=lambda model, lines: ["all is well"])
    failure = describe(LaunchSpec("m", "command"), ended, logs, "m", "it died", starved=lambda: starved)
    assert failure.kind is kind
    assert said in failure.text


def test_the_counters_are_not_asked_for_what_no_signal_ended() -> None:
    def never() -> bool:
        raise AssertionError

    logs: Any = SimpleNamespace(tail=lambda model, lines: ["terminate called: std::bad_alloc"])
    failure = describe(LaunchSpec("m", "command"), Exit(signal=6), logs, "m", "it died", starved=never)
    assert failure.kind is FailureKind.OUT_OF_MEMORY
