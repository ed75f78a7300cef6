"""Models that could not stand in memory together are looked at until they can, and only then is what was told over."""

from dataclasses import replace

import pytest

from reconciler.core.types import Manifest, World
from reconciler.loop.mended import PACE, Mended
from worlds import NOW, manifest, model, running, world

PAIR = ("chat", "coder")
TIGHT = manifest(model("chat", 600), model("coder", 600))
SMALLER = manifest(model("chat", 600), model("coder", 300))
SEEN = world(running("chat", 600))


def looks(
    *turns: tuple[Manifest, float], seen: World = SEEN, apart: tuple[tuple[str, ...], ...] = ()
) -> list[bool]:
    """Return of each look whether what was told of the pair is over."""
    mended = Mended(apart)
    return [bool(mended.look([PAIR], wanted, seen, at)) for wanted, at in turns]


@pytest.mark.parametrize(
    "changed",
    [
        SMALLER,
        replace(TIGHT, memory=TIGHT.memory and 2 * TIGHT.memory),
        manifest(model("chat", 600)),
        manifest(model("other", 600)),
    ],
)
def test_it_is_over_once_they_can_stand_together(changed: Manifest) -> None:
    assert looks((TIGHT, NOW), (changed, NOW + 1), (changed, NOW + 9)) == [False, True, False]


def test_who_could_always_stand_together_went_for_another_reason() -> None:
    assert looks((SMALLER, NOW), (SMALLER, NOW + 9)) == [False, False]


def test_after_a_start_they_are_believed_to_have_been_apart() -> None:
    assert looks((SMALLER, NOW), apart=(PAIR,)) == [True]
    assert looks((TIGHT, NOW), (SMALLER, NOW + 1), apart=(PAIR,)) == [False, True]


@pytest.mark.parametrize("unknown", ["chat", "coder"])
def test_a_size_that_is_unknown_mends_nothing(unknown: str) -> None:
    sizes = {"chat": 300, "coder": 300, unknown: None}
    blind = manifest(*(model(name, size) for name, size in sizes.items()))
    assert looks((TIGHT, NOW), (blind, NOW + 1), seen=world()) == [False, False]


def test_without_an_edit_they_are_looked_at_now_and_then() -> None:
    mended, fits = Mended(), world(running("chat", 600))
    assert mended.look([PAIR], TIGHT, fits, NOW) == ()
    assert mended.look([], TIGHT, fits, NOW + PACE / 2) == ()  # not looked at: the pair is not forgotten
    assert mended.look([PAIR], SMALLER, fits, NOW + PACE) == (PAIR,)
