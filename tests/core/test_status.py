"""Conditions: what is true of the manifest and of each model."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from reconciler.core.machine import Idle
from reconciler.core.memory import HostUse, Memory, Said
from reconciler.core.plan import plan
from reconciler.core.pressure import Level, Pressure
from reconciler.core.status import Condition, Facts, of_manifest, of_models
from reconciler.core.types import Instance, LedgerEntry, Manifest, Preflight, World
from worlds import GIB, MIB, NOW, manifest, model, running, world

WANTED = manifest(model("a", None))


def facts(seen: World, wanted: Manifest = WANTED, trouble: str | None = None) -> Facts:
    made = plan(wanted, seen, NOW)
    return Facts(
        wanted, seen, made, Idle(), frozenset(i.model for i in seen.observation.instances), (), trouble
    )


def said(found: Sequence[Condition], kind: str) -> str | None:
    """Return `Reason: message` of the condition of this type, or None if there is none."""
    return next((f"{c.reason}: {c.message}" for c in found if c.type == kind), None)


def machine(memory: Memory, least: int | None = None, pressure: Pressure | None = None) -> World:
    seen = world()
    looked = replace(
        seen.observation, memory=memory, least_unattributed=least, pressure=pressure or Pressure()
    )
    return replace(seen, observation=looked)


def test_nothing_is_wrong_with_a_machine_that_can_be_read() -> None:
    found = of_manifest(facts(machine(Memory(10 * GIB, 5 * GIB))), (), NOW)
    assert {c.type for c in found} == {"ManifestValid", "Ready"}


def test_all_that_is_wrong_with_the_account_is_said_at_once() -> None:
    host = HostUse(10 * GIB, 2 * GIB, programs=GIB, kernel=GIB)
    memory = Memory(10 * GIB, None, "no MemAvailable", host=host, problems=("vmstat is no text",))
    found = of_manifest(facts(machine(memory, least=4 * GIB), trouble="disk full"), (), NOW)
    assert said(found, "Degraded") == (
        "LedgerUnwritable: disk full; no MemAvailable; vmstat is no text; 2.0 GiB more than before are in use by nobody"
        " known: a driver, or a probe that is missing"
    )


@pytest.mark.parametrize(
    ("pressure", "expected"),
    [
        (Pressure(Level.SOFT, 0.78, cause="78 % in use"), "Soft: 78 % in use"),
        (
            Pressure(Level.CALM, 0.74, relieving=True, cause="to be brought below"),
            "Relieving: to be brought below",
        ),
        (Pressure(Level.CALM, 0.5), None),
    ],
)
def test_a_shortage_is_a_condition_while_it_lasts(pressure: Pressure, expected: str | None) -> None:
    found = of_manifest(facts(machine(Memory(10 * GIB, 2 * GIB), pressure=pressure)), (), NOW)
    assert said(found, "MemoryPressure") == expected


@pytest.mark.parametrize(
    ("estimate", "stated", "holds", "expected"),
    [
        (1000, None, 1049, None),
        (1000, None, 1051, "OverEstimate: holds 1.0 GiB, 51 MiB more than was estimated"),
        (100, None, 131, None),
        (100, None, 133, "OverEstimate: holds 133 MiB, 33 MiB more than was estimated"),
        (1000, 100, 101, "OverEstimate: holds 101 MiB, 1 MiB more than memory.steady says"),
        (None, None, 4000, None),
    ],
)
def test_a_model_that_holds_more_than_it_should(
    estimate: int | None, stated: int | None, holds: int, expected: str | None
) -> None:
    wanted = manifest(model("a", stated), mib=8000)
    checked = Preflight("a", steady=None if estimate is None else estimate * MIB)
    seen = world(running("a", holds), preflights=[checked])
    assert said(of_models(facts(seen, wanted), {}, NOW)["a"], "Degraded") == expected


@pytest.mark.parametrize(
    ("asked", "took", "instances", "expected"),
    [
        (8192, 8192, [running("a", 10)], None),
        (
            8192,
            4096,
            [running("a", 10)],
            "ContextShrunk: the engine set up 4096 tokens of context, 8192 were asked for",
        ),
        (8192, 4096, [], None),
        (None, 4096, [running("a", 10)], None),
        (8192, None, [running("a", 10)], None),
    ],
)
def test_an_engine_that_took_less_context_than_it_was_asked_for(
    asked: int | None, took: int | None, instances: list[Instance], expected: str | None
) -> None:
    entry = LedgerEntry("a", "a-v1", said=Said(context_tokens=took))
    checked = Preflight("a", steady=10 * MIB, context_tokens=asked)
    seen = world(*instances, preflights=[checked], ledger=[entry])
    assert said(of_models(facts(seen), {}, NOW)["a"], "Degraded") == expected
