"""When the load in flight is ended for want of memory, and who is blamed."""

from dataclasses import replace

import pytest

from reconciler.core import machine
from reconciler.core.memory import MappedFile, Memory
from reconciler.core.types import Evict, Instance, Load, Manifest, Observation, Reason
from reconciler.loop.floor import FloorWatch, Sunk

MIB = 1 << 20
LOADING = machine.Loading(Load("new", "d", 100 * MIB, Reason.DEMANDED), 0.0, 60.0)
EVICTING = machine.Evicting(Evict("old", 7, 1, 100, Reason.MAKE_ROOM, "new"), 0.0, 1.0)
WEIGHTS = MappedFile("8:1:42", 500 * MIB)
NEW = Instance("new", "d", 1, 1, 1, False, 50 * MIB, 0, 0.0, 0.0)
#: 1000 MiB are kept free; 64 MiB less than that is not taken for a fall.
MANIFEST = Manifest((), reserve=1000 * MIB)


def looks(
    *available: int | None,
    instances: tuple[Instance, ...] = (NEW,),
    state: machine.State = LOADING,
    manifest: Manifest = MANIFEST,
    pace: float = 0.5,
) -> list[Sunk | None]:
    """Return what each of several looks says; MiB of available memory each, `pace` seconds apart."""
    watch = FloorWatch()
    return [
        watch.look(
            state,
            manifest,
            Observation(n, n * pace, Memory(9000 * MIB, None if a is None else a * MIB), instances),
        )
        for n, a in enumerate(available)
    ]


@pytest.mark.parametrize(
    ("available", "ended"),
    [
        ((900, 900), [False, True]),
        ((930, 937, 930, 930), [False, False, False, True]),  # a dip, then a fall
        ((940, 940, 940), [False, False, False]),
        ((900, None, 900, 900), [False, False, False, True]),  # unknown says nothing
        ((None, None), [False, False]),
    ],
)
def test_a_fall_has_to_last(available: tuple[int | None, ...], ended: list[bool]) -> None:
    assert [sunk is not None for sunk in looks(*available)] == ended


def test_being_woken_often_makes_no_evidence() -> None:
    said = looks(*[900] * 9, pace=0.05)
    assert [s is None for s in said] == [True] * 4 + [False] * 5


def test_a_small_floor_is_one_too() -> None:
    small = replace(MANIFEST, reserve=60 * MIB)
    assert looks(29, 29, manifest=small)[-1] is not None
    assert looks(31, 31, manifest=small)[-1] is None


def test_only_a_load_is_ended() -> None:
    assert looks(1, 1, state=machine.Idle()) == looks(1, 1, state=EVICTING) == [None, None]


@pytest.mark.parametrize(
    ("committed", "files", "others", "blamed"),
    [
        (50, (), (), False),
        (101, (), (), True),
        # 500 MiB of weights that came with it ...
        (50, (WEIGHTS,), (), True),
        # ... and that were there before: the plan gave it 100 MiB beside them.
        (50, (WEIGHTS,), (WEIGHTS,), False),
        (101, (WEIGHTS,), (WEIGHTS,), True),
        (50, (WEIGHTS,), (replace(WEIGHTS, size=440 * MIB),), True),
    ],
)
def test_who_took_the_memory(
    committed: int, files: tuple[MappedFile, ...], others: tuple[MappedFile, ...], blamed: bool
) -> None:
    new = replace(NEW, committed=committed * MIB, warm=sum(f.size for f in files), files=files)
    warm = sum(f.size for f in others)
    old = replace(NEW, model="old", pid=2, ready=True, committed=3000 * MIB, warm=warm, files=others)
    sunk = looks(100, 100, instances=(new, old))[-1]
    assert sunk is not None
    assert sunk.own_fault is blamed
    assert "only 100 MiB of memory were left, 1000 MiB are kept free" in sunk.message
    assert ("where 100 MiB were expected" in sunk.message) is blamed


def test_nobody_is_blamed_for_what_a_dying_process_has_not_given_back_yet() -> None:
    dying = replace(NEW, committed=0)
    assert looks(100, 100, instances=(dying,)) == [None, None]
    unknown = replace(NEW, committed=None)
    assert looks(100, 100, instances=(unknown,))[-1] is not None
