"""What a launch is charged where the system cannot tell which mapped pages are resident."""

import pytest

from reconciler.core import book
from reconciler.core.memory import Basis, MappedFile, Said
from reconciler.core.types import LedgerEntry
from reconciler.host import Process
from reconciler.loop.launches import Launch, Launches, instance
from reconciler.memory.probe import Held

GIB = 1 << 30
#: A model on a Mac: 3 GiB footprint, once 5, and 19 GiB of weights wrapped for the GPU, which are in no footprint.
MAC = Held(3 * GIB, 0, warm_basis=Basis.ESTIMATED, peak=5 * GIB)


def launch(held: Held, said: Said | None) -> Launch:
    found = Launch("id", "chat", "d", None, Process(1, 1), 18100, 0.0)
    found.held, found.said = held, said
    return found


@pytest.mark.parametrize(
    ("held", "said", "warm", "peak"),
    [
        (MAC, None, 0, 5 * GIB),
        (MAC, Said(gpu_mapped=19 * GIB), 19 * GIB, 24 * GIB),
        (
            Held(3 * GIB, 2 * GIB, (MappedFile("8:1:7", 2 * GIB),)),
            Said(gpu_mapped=19 * GIB),
            2 * GIB,
            5 * GIB,
        ),
        (Held(3 * GIB, None), Said(gpu_mapped=19 * GIB), None, 3 * GIB),
    ],
)
def test_weights_mapped_for_the_gpu_count_where_nothing_else_tells(
    held: Held, said: Said | None, warm: int | None, peak: int
) -> None:
    seen = instance(launch(held, said), 0.0, 0)
    assert seen.warm == warm
    assert book.measured(LedgerEntry("chat", "d"), seen).peak == peak


def test_what_nobody_owns_up_to_is_charged_to_the_load_it_came_with() -> None:
    found = launch(Held(2 * GIB, GIB, device=GIB), None)
    found.unowned = 4 * GIB
    seen = instance(found, 0.0, 0)
    assert (seen.committed, seen.device, found.holds) == (6 * GIB, 5 * GIB, 7 * GIB)


def test_who_had_to_go_for_others_is_one_that_returned() -> None:
    launches, first, second = Launches(), launch(MAC, None), launch(MAC, None)
    launches.serve(first)
    assert not instance(first, 0.0, 0).returned
    launches.unserve(first)
    launches.unloaded("chat", rests=True)  # its idle time was over
    launches.serve(second)
    assert not instance(second, 0.0, 0).returned
    launches.unserve(second)
    launches.unloaded("chat", rests=True, displaced=True)
    launches.serve(first)
    assert instance(first, 0.0, 0).returned
