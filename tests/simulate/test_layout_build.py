"""A manifest becomes what is simulated: speeds by precedence, memory without our models, the names clients use."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.core import book
from reconciler.core.crashes import FailureKind
from reconciler.core.memory import Estimate, GpuPool, HostUse, Memory, Stall, Swap
from reconciler.core.types import Instance, LedgerEntry, Observation, Preflight, World
from reconciler.leases import QueueLimits
from reconciler.manifest import described_world, load_manifest
from reconciler.manifest.applied import Applied
from reconciler.manifest.machine_file import DescribedMachine, load_machine
from reconciler.simulate.layout import Layout, Origin, Origins
from reconciler.simulate.layout_build import layout_here, layout_there, routes, unloaded
from reconciler.simulate.speeds import AFTER_LOAD, TURN, guess
from reconciler.simulate.speeds_fit import INSTANT
from reconciler.simulate.speeds_past import Past
from reconciler.store.records import EvictionRecord, LoadRecord, RequestRecord

GIB = 1 << 30
MANIFEST = """\
apiVersion: reconciler/v1
machine: {memory: 64GiB}
gateway: {gates: {heavy: {limit: 1, above: 30GB, roles: [chat]}}}
models:
  big: {weights: big.gguf, memory: {steady: 40GiB}, aliases: [smart], priority: low, queue: {max: 9, timeout: 40s}}
  small: {weights: small.gguf, memory: {steady: 6GB}, concurrency: 3}
  voice: {engine: command, command: [voice, "${port}"], role: tts, memory: {steady: 1GiB}}
virtual:
  auto:
    rules: [{when: {image: true}, use: big}]
    use: [small, big]
    strategy: ready
"""
MEMORY = Memory(total=64 * GIB, available=60 * GIB)


@pytest.fixture
def applied(tmp_path: Path) -> Applied:
    path = tmp_path / "m.yaml"
    path.write_text(MANIFEST)
    return load_manifest(path, environ=os.environ)


def digest(applied: Applied, model: str) -> str:
    return next(m.digest for m in applied.manifest.models if m.name == model)


def machine(tmp_path: Path, applied: Applied, text: str) -> DescribedMachine:
    path = tmp_path / "machine.yaml"
    path.write_text("apiVersion: reconciler/v1\nmemory: 96GiB\nin_use: 4GiB\n" + text)
    return load_machine(path, applied.launches, os.environ)


def layout(
    applied: Applied,
    *,
    preflights: tuple[Preflight, ...] = (),
    ledger: tuple[LedgerEntry, ...] = (),
    past: Past | None = None,
) -> Layout:
    """Return the layout on this machine; unless it is said otherwise each model was loaded long ago as it is now."""
    seen = Observation(1, 5.0, MEMORY, (), preflights=preflights)
    before = past or Past()
    known = {r.model for r in before.loads}
    loads = [load(applied, m, 1.0, at=-1.0, kind="wake") for m in ("big", "small", "voice") if m not in known]
    return layout_here(
        applied, World(seen, ledger), name="m", past=replace(before, loads=(*loads, *before.loads))
    )


def request(model: str, seconds: float, prompt: int | None, output: int | None, **more: Any) -> RequestRecord:
    return RequestRecord(
        id=0,
        at=more.get("at", 0.0),
        model=model,
        client="me",
        waited=more.get("waited", 0.0),
        cold=0.0,
        seconds=seconds,
        prompt_tokens=prompt,
        output_tokens=output,
        outcome=more.get("outcome", "ok"),
    )


def load(applied: Applied, model: str, seconds: float, **more: Any) -> LoadRecord:
    made = LoadRecord(0, 0.0, model, digest(applied, model), "Demanded", seconds, None, "ready", 1, "load")
    return replace(made, **more)


def eviction(model: str, seconds: float, idle: float, outcome: str = "gone") -> EvictionRecord:
    return EvictionRecord(0, 0.0, model, "MakeRoom", "", 0, None, "calm", seconds, 60.0, idle, None, outcome)


def test_without_any_measure_size_tells(applied: Applied) -> None:
    speeds = layout(applied).speeds
    assert sorted(speeds) == ["big", "small", "voice"]
    assert speeds["small"].load == pytest.approx(6e9 / 3e9 + 2)
    assert speeds["big"].load == pytest.approx(40 * GIB / 3e9 + 2)
    assert speeds["small"].output == pytest.approx(100e9 / 6e9)
    assert speeds["small"].prompt == pytest.approx(20 * 100e9 / 6e9)
    assert speeds["voice"].output == pytest.approx(100e9 / GIB)
    assert (speeds["small"].evict, speeds["small"].fixed) == (1.0, 0.05)
    assert guess(10_000_000).output == 200, "no model is faster than what each token takes besides"


def test_weights_count_for_tokens_and_the_whole_size_for_the_load(applied: Applied) -> None:
    parts = Estimate(weights=2_000_000_000, context=0, compute=0)
    seen = (Preflight("small", steady=9_000_000_000, parts=parts),)
    speed = layout(applied, preflights=seen).speeds["small"]
    assert speed.output == pytest.approx(50)
    assert speed.load == pytest.approx(6e9 / 3e9 + 2), "the manifest's size is believed"


def test_what_was_measured_goes_before_an_estimate_and_what_is_written_before_both(
    applied: Applied, tmp_path: Path
) -> None:
    ledger = (
        LedgerEntry("big", digest(applied, "big"), load_seconds=31.0),
        LedgerEntry("small", "another launch", load_seconds=99.0),
    )
    here = layout(applied, ledger=ledger).speeds
    assert (here["big"].load, here["big"].origins.load) == (31, Origin.MEASURED)
    assert here["small"].load == pytest.approx(4), "what other settings took says nothing"
    assert here["small"].origins == Origins()


def test_a_described_machine_has_what_it_states_and_else_what_sizes_tell(
    applied: Applied, tmp_path: Path
) -> None:
    there = machine(tmp_path, applied, "speeds: {big: {output: 7, evict: 4s}, small: {load: 5s}}\n")
    told, guessed = layout_there(applied, there, name="m").speeds, layout(applied).speeds
    origins = Origins(evict=Origin.STATED, output=Origin.STATED)
    assert told["big"] == replace(guessed["big"], evict=4.0, output=7.0, origins=origins)
    assert told["big"].after == AFTER_LOAD
    assert told["small"] == replace(guessed["small"], load=5.0, origins=Origins(load=Origin.STATED))
    assert told["voice"] == guessed["voice"]


def test_the_disk_of_a_described_machine_tells_how_long_a_load_takes(
    applied: Applied, tmp_path: Path
) -> None:
    slow = machine(tmp_path, applied, "disk: 500MB\n")
    speed = layout_there(applied, slow, name="m").speeds["small"]
    assert speed.load == pytest.approx(14)
    assert speed.origins.load is Origin.ASSUMED


def test_loads_and_evictions_are_the_mean_of_those_that_say_something(applied: Applied) -> None:
    past = Past(
        loads=(
            load(applied, "big", 10.0),
            load(applied, "big", 900.0),  # counts for 39, three times the median
            load(applied, "big", 12.0),
            load(applied, "big", 14.0),
            load(applied, "big", 1.0, kind="wake"),
            load(applied, "big", 1.0, outcome="failed"),
            load(applied, "big", 1.0, digest="older", at=-9.0),
        ),
        evictions=(
            eviction("big", 40.0, idle=0.0),
            eviction("big", 3.0, idle=9.0),
            eviction("big", 2.0, idle=9.0),
            eviction("big", 5.5, idle=9.0),
            eviction("big", 0.1, idle=9.0, outcome="given-up"),
            eviction("small", 7.0, idle=0.0),
        ),
    )
    ledger = (LedgerEntry("big", digest(applied, "big"), load_seconds=90.0),)
    speeds = layout(applied, ledger=ledger, past=past).speeds
    assert (speeds["big"].load, speeds["big"].evict) == (18.75 + TURN, 3.5 + TURN)
    assert speeds["big"].origins == Origins(load=Origin.MEASURED, evict=Origin.MEASURED)
    assert speeds["small"].evict == 7.0 + TURN, "nothing else is known than one that drained"


def test_rates_come_from_our_own_requests(applied: Applied) -> None:
    served = [
        request("small", 0.3 + p / 800 + o / 40, p, o) for p in (100, 700, 2000, 40) for o in (10, 80, 300)
    ]
    odd = [request("small", 500.0, 10, 1, outcome="failed"), request("small", 0.0, 10, 1)]
    speed = layout(applied, past=Past(requests=(*served, *odd))).speeds["small"]
    assert (speed.prompt, speed.output, speed.fixed) == pytest.approx((800, 40, 0.3))
    rates = Origins(prompt=Origin.MEASURED, output=Origin.MEASURED, fixed=Origin.MEASURED)
    assert speed.origins == rates


def test_only_what_the_very_launch_did_tells_how_fast_it_is(applied: Applied) -> None:
    """At 100 s it was loaded with other settings, at 200 s with those it has now, at 300 s with others again."""
    loads = (
        load(applied, "small", 5.0, at=100.0, digest="older"),
        load(applied, "small", 5.0, at=190.0, digest="broken", outcome="failed"),
        load(applied, "small", 7.0, at=200.0),
        load(applied, "small", 5.0, at=300.0, digest="newer"),
    )
    requests = (
        request("small", 90.0, None, None, at=50.0),  # before any load that is remembered
        request("small", 80.0, None, None, at=120.0),
        request(
            "small", 3.0, None, None, at=198.0, waited=9.0
        ),  # it came before the load, and was served after it
        request("small", 70.0, None, None, at=310.0),
    )
    evictions = (
        replace(eviction("small", 30.0, idle=9.0), at=180.0),
        replace(eviction("small", 2.5, idle=9.0), at=290.0),
        replace(eviction("small", 40.0, idle=9.0), at=400.0),
    )
    speed = layout(applied, past=Past(requests, loads, evictions)).speeds["small"]
    assert (speed.fixed, speed.load, speed.evict) == (3.0, 7.0 + TURN, 2.5 + TURN)
    told = layout(applied, past=Past(requests[:2], loads, evictions[:1])).speeds["small"]
    assert (told.fixed, told.evict) == (0.05, 1.0), "nothing is known of the launch itself"
    assert told.origins == Origins(load=Origin.MEASURED)


def test_where_no_tokens_are_known_every_request_takes_the_same(applied: Applied) -> None:
    past = Past(requests=tuple(request("voice", s, None, None) for s in (1.0, 2.0, 30.0)))
    speed = layout(applied, past=past).speeds["voice"]
    assert (speed.fixed, speed.prompt, speed.output) == (2.0, INSTANT, INSTANT)


def test_limits_gates_and_names_are_those_of_the_manifest(applied: Applied) -> None:
    made = layout(applied)
    assert made.gates == {"heavy": 1, "llm": 2}
    assert made.admissions["big"].gates == ("heavy", "llm")
    assert made.admissions["voice"].gates == ()
    assert made.admissions["small"].concurrency == 3
    assert made.limits["big"] == QueueLimits(max=9, timeout=40.0)
    assert made.urgency == {"big": 250, "small": 500, "voice": 500}
    assert made.manifest is applied.manifest
    assert routes(applied) == made.routes
    assert made.routes == {"auto": "small", "big": "big", "small": "small", "smart": "big", "voice": "voice"}


def test_failures_of_the_past_are_forgotten_and_sizes_are_not(applied: Applied) -> None:
    entry = LedgerEntry("big", digest(applied, "big"), peak=50 * GIB)
    for now in range(3):
        entry = book.failed(entry, "it died", float(now), FailureKind.OUT_OF_MEMORY, 60 * GIB)
    assert entry.raised > 60 * GIB
    (known,) = layout(applied, ledger=(entry,)).ledger
    assert known == LedgerEntry("big", digest(applied, "big"), peak=50 * GIB)


def test_a_described_machine_is_the_one_of_the_dry_run(applied: Applied, tmp_path: Path) -> None:
    there = machine(tmp_path, applied, "gpu: 80GiB\nsizes: {voice: 3GiB}\nloaded: {big: {requests: 1}}\n")
    made = layout_there(applied, there, name="m")
    seen = described_world.world(applied, there)
    assert made.preflights == seen.observation.preflights
    assert made.ledger == seen.ledger == ()
    assert book.budget(applied.manifest, made.memory) == book.budget(
        applied.manifest, seen.observation.memory
    )
    assert book.capacity(applied.manifest, made.memory, ()) == book.capacity(
        applied.manifest, seen.observation.memory, seen.observation.instances
    )
    assert made.memory.available == 92 * GIB, "nothing is loaded when a simulation begins"


def running(model: str, committed: int | None, device: int = 0) -> Instance:
    return Instance(
        model,
        "d",
        pid=1,
        started=1,
        port=1,
        ready=True,
        committed=committed,
        warm=GIB,
        loaded_at=0.0,
        last_used=0.0,
        device=device,
    )


def test_this_machine_is_taken_without_our_models(applied: Applied) -> None:
    memory = Memory(
        total=64 * GIB,
        available=20 * GIB,
        swap=Swap(total=8 * GIB, used=GIB, read=5, written=9),
        stall=Stall(some=30.0, full=20.0),
        host=HostUse(total=128 * GIB, available=30 * GIB, programs=50 * GIB, kernel=2 * GIB),
        gpu=GpuPool(ceiling=48 * GIB, used=12 * GIB),
        files=3 * GIB,
    )
    instances = (running("big", 30 * GIB, device=8 * GIB), running("small", 4 * GIB), running("voice", None))
    seen = Observation(1, 5.0, memory, instances, preflights=(Preflight("voice", steady=1),))
    made = layout_here(applied, World(seen, (LedgerEntry("big", "d", peak=1),)), name="m")
    assert made.memory.available == 54 * GIB
    assert made.memory.gpu == GpuPool(ceiling=48 * GIB, used=4 * GIB)
    assert made.memory.host == HostUse(total=128 * GIB, available=64 * GIB, programs=24 * GIB, kernel=2 * GIB)
    assert (made.memory.swap, made.memory.stall) == (Swap(total=8 * GIB, used=0), Stall())
    assert made.memory.files is None
    assert made.preflights == seen.preflights
    assert made.ledger == (LedgerEntry("big", "d", peak=1),)


def test_what_can_be_held_is_the_same_with_our_models_and_without(applied: Applied) -> None:
    memory = Memory(total=64 * GIB, available=20 * GIB)
    instances = (running("big", 30 * GIB), running("small", 4 * GIB))
    bare = unloaded(memory, instances)
    assert book.capacity(applied.manifest, bare, ()) == book.capacity(applied.manifest, memory, instances)
    assert unloaded(Memory(None, None), instances).available is None, "unknown stays unknown"
    assert unloaded(memory, [running("big", 60 * GIB)]).available == 64 * GIB, "no more than there is"
