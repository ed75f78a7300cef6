"""Whatever is advised works, and less of it does not: on 500 random machines each piece of advice is followed."""

from collections import Counter
from dataclasses import replace

import pytest

from advice_worlds import BLOCK, Machine, a_step_less, followed, random_machine
from reconciler.core.advice import advise
from reconciler.core.advice_types import Change, ChangeKind
from reconciler.core.plan import plan
from reconciler.core.types import Load, Reason, Residency
from worlds import MIB, NOW, perform

MACHINES = 500
CHUNKS = 10
#: How often each kind was advised, over all machines.
ADVISED: Counter[ChangeKind] = Counter()
#: Less context of models whose engine rounds it.
ROUNDED: list[Change] = []


def loaded(machine: Machine, model: str) -> bool:
    """Whether the model is in memory once the steps of the plan have been performed, as far as its own load."""
    manifest, world = machine.built()
    for step in plan(manifest, world, machine.at).steps:
        world = perform(step, manifest, world)
        if isinstance(step, Load) and step.model == model:
            return any(i.model == model and i.ready for i in world.observation.instances)
    return False


def could_be_loaded(machine: Machine, model: str) -> bool:
    """Whether the model would be in memory if nobody asked for another one and only pinned models were there."""
    calm = replace(machine, others=0)
    for m in machine.models:
        if m.residency is not Residency.PINNED and m.name != model:
            calm = calm.edit(m.name, idle=None, waits=None, wanted=False, residency=Residency.ON_DEMAND)
    return loaded(calm.edit(model, retry_in=None, closed=None), model)


def chosen(machine: Machine) -> str | None:
    """A model that is not in memory: the first that a request would wait for, else any."""
    cold = [m.name for m in machine.models if m.idle is None]
    return next((n for n in cold if not loaded(machine.asked(n), n)), cold[0] if cold else None)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_advised_makes_it_fit_and_a_step_less_does_not(chunk: int) -> None:
    for seed in range(chunk, MACHINES, CHUNKS):
        machine = random_machine(seed)
        name = chosen(machine)
        if name is None:
            continue
        advice = advise(*machine.built(), name, machine.at)
        wanted = machine.asked(name)
        assert advice.fits == loaded(wanted, name), (seed, name)
        assert not (advice.fits and advice.changes), (seed, name)
        # One that can never fit is told what would let it, whatever is in use now.
        works = could_be_loaded if advice.verdict.reason is Reason.NEVER_FITS else loaded
        for change in advice.changes:
            ADVISED[change.kind] += 1
            if change.kind is ChangeKind.CONTEXT and machine.get(change.model or "").asked is not None:
                ROUNDED.append(change)
                assert change.tokens_left is not None
                assert change.tokens_left % BLOCK == 0
            after = followed(wanted, change)
            assert works(after, name), (seed, name, change)
            assert change.at_once == loaded(after, name), (seed, name, change)
            fewer = a_step_less(change)
            assert fewer is None or not works(followed(wanted, fewer), name), (seed, name, change)


def test_each_kind_was_advised_and_seldom_nothing() -> None:
    """Runs after the others: what is never advised was not tested above."""
    for chunk in range(CHUNKS if not ADVISED else 0):
        test_what_is_advised_makes_it_fit_and_a_step_less_does_not(chunk)
    assert set(ADVISED) == set(ChangeKind)
    assert min(ADVISED.values()) >= 3
    assert len(ROUNDED) >= 50


@pytest.mark.parametrize("seed", range(0, 500, 25))
def test_no_smaller_context_would_do(seed: int) -> None:
    """Every smaller number is tried, not only the next one."""
    machine = random_machine(seed)
    name = chosen(machine)
    if name is None:
        return
    for change in advise(*machine.built(), name, machine.at).changes:
        if change.kind is ChangeKind.CONTEXT and machine.get(change.model or "").asked is None:
            for count in range(1, change.bytes // MIB):
                fewer = followed(machine.asked(name), replace(change, bytes=count * MIB))
                assert not (loaded if change.at_once else could_be_loaded)(fewer, name), (name, change, count)


def test_advice_that_is_asked_for_twice_is_the_same() -> None:
    for seed in range(0, MACHINES, 50):
        machine = random_machine(seed)
        for m in machine.models:
            assert advise(*machine.built(), m.name, NOW) == advise(*machine.built(), m.name, NOW)
