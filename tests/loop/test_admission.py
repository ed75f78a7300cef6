"""Which gates a model passes, and how many requests it gets at once."""

from dataclasses import replace

import pytest

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Estimate, MappedFile
from reconciler.core.types import Manifest, ModelSpec, Preflight
from reconciler.leases import Admission
from reconciler.loop.admission import admissions, gates_of, weight
from reconciler.manifest.applied import (
    HEAVY_BYTES,
    STANDARD_GATES,
    Applied,
    Gate,
    GatewaySettings,
    RequestLimits,
    Source,
)

GIB = 1 << 30


def launch(role: Role = Role.CHAT, engine: str = "command") -> LaunchSpec:
    return LaunchSpec("m", engine, role=role)


@pytest.mark.parametrize(
    ("role", "weights", "expected"),
    [
        (Role.CHAT, HEAVY_BYTES, ("heavy", "llm")),
        (Role.COMPLETION, HEAVY_BYTES + 1, ("heavy", "llm")),
        (Role.CHAT, HEAVY_BYTES - 1, ("llm",)),
        (Role.CHAT, None, ("llm",)),
        (Role.EMBEDDING, HEAVY_BYTES, ()),
        (Role.RERANK, None, ()),
        (Role.ASR, HEAVY_BYTES, ()),
    ],
)
def test_gates_by_role_and_size(role: Role, weights: int | None, expected: tuple[str, ...]) -> None:
    assert gates_of(launch(role), RequestLimits(), STANDARD_GATES, weights) == expected


@pytest.mark.parametrize("named", [(), ("heavy",), ("z", "a")])
def test_a_model_that_names_its_gates_passes_those(named: tuple[str, ...]) -> None:
    limits = RequestLimits(gates=named)
    assert gates_of(launch(), limits, STANDARD_GATES, HEAVY_BYTES) == tuple(sorted(named))


def test_a_gate_without_roles_is_for_those_that_name_it() -> None:
    assert gates_of(launch(), RequestLimits(), {"own": Gate(1), "large": Gate(1, above=5)}, 9) == ()
    everybody = Gate(1, roles=frozenset(Role))
    assert gates_of(launch(Role.RERANK), RequestLimits(), {"all": everybody}, None) == ("all",)


FILES = (MappedFile("x", 3 * GIB), MappedFile("y", GIB))


@pytest.mark.parametrize(
    ("steady", "preflight", "expected"),
    [
        (None, None, None),
        (5 * GIB, None, 5 * GIB),
        (5 * GIB, Preflight("m", parts=Estimate(weights=2 * GIB)), 2 * GIB),
        (5 * GIB, Preflight("m", parts=Estimate(), files=FILES), 5 * GIB),
        (None, Preflight("m", parts=Estimate(), files=FILES), 4 * GIB),
        (None, Preflight("m"), None),
    ],
)
def test_weight(steady: int | None, preflight: Preflight | None, expected: int | None) -> None:
    assert weight(ModelSpec("m", "d", steady=steady), preflight) == expected


def applied(launches: dict[str, LaunchSpec], limits: dict[str, RequestLimits]) -> Applied:
    specs = tuple(ModelSpec(name, "d") for name in sorted(launches))
    return Applied(
        manifest=Manifest(specs),
        launches=launches,
        routes={name: name for name in launches},
        limits=limits,
        gateway=GatewaySettings(),
        ports=(1, 2),
        digest="d",
        source=Source("m"),
    )


def test_admissions_of_a_manifest() -> None:
    launches = {
        "chat": replace(launch(engine="llama.cpp"), model="chat", slots=3),
        "embed": replace(launch(Role.EMBEDDING, "llama.cpp"), model="embed"),
        "own": replace(launch(), model="own"),
        "tool": replace(launch(Role.CLASSIFY), model="tool"),
    }
    limits = {"own": RequestLimits(concurrency=1, gates=("heavy",)), "chat": RequestLimits()}
    big = Preflight("chat", parts=Estimate(weights=HEAVY_BYTES))
    assert admissions(applied(launches, limits), [big]) == {
        "chat": Admission(4, ("heavy", "llm")),
        "embed": Admission(None, ()),
        "own": Admission(1, ("heavy",)),
        "tool": Admission(None, ()),
    }
