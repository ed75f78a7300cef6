"""Who cannot stand together, and what would let them: never told of models that do fit."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from advice_worlds import Desk, Machine, a_step_less, followed, random_machine
from reconciler.core.advice import advise
from reconciler.core.advice_rivals import MOST, rivals
from reconciler.core.advice_types import ChangeKind, Rivalry
from reconciler.core.advice_words import rivalry_text
from reconciler.core.plan import plan
from reconciler.core.swaps import KEPT, WINDOW, noted, recent, taking_turns
from reconciler.core.types import Evict, Load, Reason, Residency, Swap
from worlds import MIB, NOW

PAIR = Machine((Desk("a", 40, 20, idle=5.0), Desk("b", 40, 20)), memory=100, total=100)
TURNS = (("a", "b"), ("b", "a"))


def found(machine: Machine, *, waiting: bool = False) -> tuple[Rivalry, ...]:
    return rivals(*machine.built(), machine.at, waiting=waiting)


def told(machine: Machine) -> list[str]:
    return [rivalry_text(r) for r in found(machine)]


def test_where_no_single_change_is_enough_that_is_said() -> None:
    machine = replace(PAIR, models=(Desk("a", 60, 10, idle=5.0), Desk("b", 60, 10)), swaps=TURNS)
    assert told(machine) == [
        "a and b do not fit together: they lack 40 MiB, more than their contexts could do without"
    ]


def test_where_less_of_one_is_not_enough_less_of_both_may_be() -> None:
    text = (
        "a and b do not fit together: they lack 20 MiB; "
        "10 MiB less context for a (10000 tokens less, 10000 left) and "
        "10 MiB less context for b (10000 tokens less, 10000 left) would fit both"
    )
    assert told(replace(PAIR, swaps=TURNS)) == [text]


def test_the_smallest_context_that_is_enough_is_named() -> None:
    machine = replace(PAIR, models=(Desk("a", 40, 40, idle=5.0), Desk("b", 20, 20)), swaps=TURNS)
    text = (
        "a and b do not fit together: they lack 20 MiB; "
        "20 MiB less context for a (20000 tokens less, 20000 left) would fit both"
    )
    assert told(machine) == [text]


def test_whoever_can_best_do_without_it_comes_first_and_more_memory_last() -> None:
    machine = replace(
        PAIR,
        models=(Desk("a", 40, 30, idle=5.0), Desk("b", 20, 40, stated=True)),
        swaps=TURNS,
        memory=118,
        total=200,
    )
    changes = found(machine)[0].changes
    assert [(c.kind, c.model, c.bytes // MIB) for c in changes] == [
        (ChangeKind.CONTEXT, "b", 12),
        (ChangeKind.CONTEXT, "a", 12),
        (ChangeKind.MEMORY, None, 12),
    ]


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (replace(PAIR, swaps=(("a", "b"),)), "went once, and nobody came back"),
        (replace(PAIR, swaps=TURNS, memory=120, total=120), "they do fit"),
        (replace(PAIR, swaps=(("a", "c"), ("c", "a"))), "one of them is not in the manifest any more"),
        (replace(PAIR.edit("b", residency=Residency.PINNED), swaps=TURNS), "a pinned one goes for nobody"),
        (replace(PAIR.edit("b", weights=90), swaps=TURNS), "one of them does not fit at all"),
        (PAIR, "nobody has gone for anybody"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_is_told_where(machine: Machine, why: str) -> None:
    assert not found(machine), why


def test_what_other_programs_hold_now_makes_nobody_rivals() -> None:
    machine = replace(PAIR, swaps=TURNS, memory=120, total=160, others=90)
    assert not found(machine)


def test_old_swaps_say_nothing() -> None:
    manifest, world = replace(PAIR, swaps=TURNS).built()
    assert rivals(manifest, world, NOW)
    assert not rivals(manifest, world, NOW + WINDOW)


def test_three_of_which_each_two_would_fit() -> None:
    models = tuple(Desk(name, 30, 16) for name in "abc")
    machine = Machine(models, memory=100, total=100, swaps=(("a", "b"), ("b", "c"), ("c", "a")))
    assert [r.models for r in found(machine)] == [("a", "b", "c")]
    assert [(c.model, c.bytes // MIB) for c in found(machine)[0].together] == [
        ("a", 13),
        ("b", 13),
        ("c", 13),
    ]
    roomier = replace(machine, memory=130, total=130)
    text = (
        "a, b and c do not fit together: they lack 8 MiB; "
        "8 MiB less context for a (8000 tokens less, 8000 left)"
        " or 8 MiB less context for b (8000 tokens less, 8000 left) would fit all"
    )
    assert told(roomier) == [text]


def test_no_more_than_three_and_the_most_frequent_first() -> None:
    names = "abcde"
    models = tuple(Desk(name, 30, 40) for name in names)
    swaps = tuple(pair for x in names for y in names if x < y for pair in ((x, y), (y, x)))
    machine = Machine(models, memory=100, total=100, swaps=(*swaps, ("d", "e"), ("e", "d")))
    pairs = [r.models for r in found(machine)]
    assert len(pairs) == MOST
    assert pairs[0] == ("d", "e")


def test_a_request_that_waits_for_the_room_of_one_in_use_counts_in_a_dry_run() -> None:
    machine = PAIR.edit("b", waits=1.0)
    assert not found(machine)
    assert [r.models for r in found(machine, waiting=True)] == [("a", "b")]
    assert not found(machine.edit("a", idle=WINDOW), waiting=True), "nobody has used it lately"


def test_explain_of_both_says_it_and_of_a_third_does_not() -> None:
    machine = replace(PAIR, models=(*PAIR.models, Desk("c", 1, 1)), swaps=TURNS)
    for name, names in (("a", [("a", "b")]), ("b", [("a", "b")]), ("c", [])):
        assert [r.models for r in advise(*machine.built(), name, NOW).rivalries] == names


# -- on random machines ----------------------------------------------------------------------------------------------


def taking(seed: int) -> Machine:
    """A random machine on which all that are not pinned take turns."""
    rng = random.Random(seed)
    machine = random_machine(seed)
    models = tuple(
        replace(m, residency=Residency.ON_DEMAND) if m.residency is Residency.PINNED and m.idle is None else m
        for m in machine.models
    )
    names = [m.name for m in models if m.residency is not Residency.PINNED]
    rng.shuffle(names)
    swaps = tuple(pairwise([*names, *names[:1]])) if len(names) > 1 else ()
    return replace(machine, models=models, swaps=(*swaps, *((b, a) for a, b in swaps)))


def stands(machine: Machine, names: tuple[str, ...]) -> bool:
    """Whether some order lets all of them be loaded with nobody there but the pinned ones, and none of them go."""
    return any(_one_after_the_other(machine, order) for order in _orders(names))


def _orders(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    if len(names) < 2:
        return [names]
    return [(n, *rest) for n in names for rest in _orders(tuple(x for x in names if x != n))]


def _one_after_the_other(machine: Machine, order: tuple[str, ...]) -> bool:
    calm = replace(machine, others=0)
    for m in machine.models:
        if m.residency is not Residency.PINNED:
            calm = calm.edit(m.name, idle=None, active=0, held=0, waits=None, wanted=False, retry_in=None)
            calm = calm.edit(m.name, closed=None, residency=Residency.ON_DEMAND)
    for name in order:
        asked = calm.edit(name, waits=0.0)
        steps = plan(*asked.built(), asked.at).steps
        if [s.model for s in steps if isinstance(s, Load)] != [name] or any(
            isinstance(s, Evict) for s in steps
        ):
            return False
        calm = calm.edit(name, idle=0.0)
    return True


@pytest.mark.parametrize("chunk", range(5))
def test_rivals_cannot_stand_together_and_can_after_the_change_but_not_after_less(chunk: int) -> None:
    count = 0
    for seed in range(chunk, 250, 5):
        machine = taking(seed)
        for rivalry in found(machine):
            count += 1
            assert not stands(machine, rivalry.models), (seed, rivalry.models)
            assert all(stands(machine, (name,)) for name in rivalry.models)
            for change in rivalry.changes:
                less = a_step_less(change)
                assert less is not None
                for made, fits in ((change, True), (less, False)):
                    after = followed(machine, made)
                    assert stands(after, rivalry.models) is fits, (seed, made)
            if rivalry.together:
                after = machine
                for change in rivalry.together:
                    after = followed(after, change)
                assert stands(after, rivalry.models), (seed, rivalry.together)
    assert count >= 10


# -- who made room for whom ------------------------------------------------------------------------------------------


def evict(victim: str, claimant: str | None, reason: Reason = Reason.MAKE_ROOM) -> Evict:
    return Evict(victim, 1, 1, MIB, reason, for_model=claimant)


def test_only_room_made_for_another_model_is_a_swap() -> None:
    swaps = noted((), evict("a", "b"), 1.0)
    swaps = noted(swaps, evict("b", None, Reason.IDLE_EXPIRED), 2.0)
    swaps = noted(swaps, evict("b", "c", Reason.LESS_LIKELY), 3.0)
    assert swaps == (Swap("a", "b", 1.0),)


def test_swaps_are_forgotten_after_a_while_and_no_more_than_some_are_kept() -> None:
    swaps: tuple[Swap, ...] = ()
    for n in range(2 * KEPT):
        swaps = noted(swaps, evict("a", "b"), float(n))
    assert len(swaps) == KEPT
    assert swaps[-1].at == 2 * KEPT - 1
    assert recent(swaps, 2 * KEPT + WINDOW) == ()


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        ([], []),
        (["ab"], []),
        (["ab", "ba"], [("a", "b")]),
        (["ab", "bc", "ca"], [("a", "b", "c")]),
        (["ab", "ba", "cd", "dc"], [("a", "b"), ("c", "d")]),
        (["ab", "bc", "cb"], [("b", "c")]),
    ],
)
def test_those_take_turns_who_went_for_each_other(pairs: list[str], groups: list[tuple[str, ...]]) -> None:
    assert taking_turns(tuple(Swap(p[0], p[1], NOW) for p in pairs), NOW) == groups
