"""What is said of a state that was saved by another build of a Python worker."""

import pytest

from reconciler.core.launch import LaunchSpec
from reconciler.engines.python import ENGINE


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("python 3.11.7 words:Words 18ecb16c0a0b", "the file of words:Words was changed since"),
        ("python 3.11.7 words:Other 77aa1234beef", "the class is words:Other now, it was words:Words"),
        (
            "python 3.12.1 words:Words 77aa1234beef",
            "the interpreter is python 3.12.1 now, it was python 3.11.7",
        ),
        ("", "the engine is another build since: unknown, it was python 3.11.7 words:Words 77aa1234..."),
    ],
)
def test_what_is_another_of_what_a_state_was_saved_by(now: str, said: str) -> None:
    saver = ENGINE.saver(LaunchSpec("m", "python", entry="words:Words", saves_state=True))
    assert saver is not None
    assert saver.other_build("python 3.11.7 words:Words 77aa1234beef", now) == said
