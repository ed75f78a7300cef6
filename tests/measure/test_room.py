"""The room that a model of unknown size is measured in."""

import pytest

from reconciler.core.memory import Memory
from reconciler.core.types import Manifest
from reconciler.measure.own import room_for_unknown

MIB = 2**20
GIB = 2**30


@pytest.mark.parametrize(
    ("available", "stated", "room"),
    [
        # What is there bounds it: a tenth, a gibibyte at most, may go to others before it is admitted.
        (10 * GIB, None, 9 * GIB),
        (40 * GIB, None, 39 * GIB),
        (1000 * MIB, None, 900 * MIB),
        # A budget that is lower does not move with other programs.
        (40 * GIB, 8 * GIB, 8 * GIB),
        (None, None, None),
    ],
)
def test_other_programs_may_take_a_little_meanwhile(
    available: int | None, stated: int | None, room: int | None
) -> None:
    memory = Memory(total=64 * GIB, available=available)
    assert room_for_unknown(Manifest((), memory=stated, reserve=0), memory) == room
