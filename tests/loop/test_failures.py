"""Why a launch failed, in one sentence: nothing is told twice in it."""

from types import SimpleNamespace
from typing import Any

import pytest

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
    assert describe(spec, Exit(code=9), logs, "m", "it died") == f"it died: exit code 9; {said}"
