"""Neither a file nor a thread is to be had for a while."""

import errno
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from reconciler.loop import scarce
from reconciler.loop.scarce import Looking, insist, scarce_as, scarcity

pytestmark = pytest.mark.anyio

FILES = OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FILES, "Too many open files"),
        (RuntimeError("can't start new thread"), "no thread can be started"),
        (ExceptionGroup("two", [FILES, ExceptionGroup("one", [FILES])]), "Too many open files"),
        (ExceptionGroup("two", [FILES, ValueError("a fault of ours")]), ""),
        (OSError(errno.EIO, "Input/output error"), ""),
        (RuntimeError("a fault of ours"), ""),
    ],
)
def test_what_passes_is_told_from_faults(error: Exception, said: str) -> None:
    assert scarcity(error).startswith(said)
    assert bool(scarcity(error)) is bool(said)


async def test_it_is_said_once_and_looked_at_again() -> None:
    answers: list[Callable[[], int]] = []

    def fails() -> int:
        raise FILES

    async def look() -> int:
        return answers.pop(0)()

    answers += [fails, fails, lambda: 7]
    machine = Looking("the machine")
    with capture_logs() as lines:
        assert [await machine.attempt(look, -1) for _ in range(3)] == [-1, -1, 7]
    assert [(line["event"], line["what"]) for line in lines] == [
        ("it cannot be looked at: nothing is done, models serve on", "the machine"),
        ("it can be looked at again", "the machine"),
    ]


async def test_a_fault_of_ours_is_none_that_passes() -> None:
    async def look() -> None:
        raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="a fault of ours"):
        await Looking("the machine").attempt(look, None)


async def test_what_cannot_be_left_undone_is_tried_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scarce, "AGAIN", 0.0)
    tries = 0

    async def stop() -> str:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise FILES
        return "stopped"

    with capture_logs() as lines:
        assert await insist(stop, "ending chat") == "stopped"
    assert [(line["what"], line["error"]) for line in lines] == [("ending chat", "Too many open files")]

    async def wrong() -> None:
        raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="a fault of ours"):
        await insist(wrong, "ending chat")


def test_a_step_fails_in_its_own_words_where_nothing_can_be_opened() -> None:
    with pytest.raises(LookupError, match="not now: Too many open files"), scarce_as(_not_now):
        raise FILES
    with pytest.raises(OSError, match="Input/output"), scarce_as(_not_now):
        raise OSError(errno.EIO, "Input/output error")


def _not_now(why: str) -> LookupError:
    return LookupError(f"not now: {why}")
