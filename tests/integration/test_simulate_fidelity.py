"""What a real loop did with real requests, and what the simulator makes of the same: people wait as long in both."""

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from manager import CHAT, Background, Manager, chat
from reconciler.cli.dry_run import look
from reconciler.core.plan import plan
from reconciler.core.types import Load, Manifest, Plan, World
from reconciler.manifest import load_manifest
from reconciler.simulate.engine import run
from reconciler.simulate.layout import Layout
from reconciler.simulate.layout_build import layout_here
from reconciler.simulate.speeds_past import Past
from reconciler.simulate.trace_history import trace_of_requests
from reconciler.store import peek
from reconciler.store.paths import DATABASE
from tiny_gguf import context_bytes_per_token, write_llama

#: Share by which the simulated waiting may differ from the real one, and loads that may be more or fewer.
TOLERANCE = 0.10
LOADS = 1
#: One model's loads differ by more than this factor only on a machine that has something else to do.
EVEN = 1.3
#: Where that is so, a simulation that expects each load to take the same is no judge: then it is recorded anew.
TRIES = 2
NewManager = Callable[[], Manager]
Models = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Waited:
    """Seconds that requests waited for models to be loaded, together, and the loads."""

    cold: float
    loads: int

    def like(self, other: "Waited") -> bool:
        """Return whether they are as near as a simulation has to be."""
        near = abs(self.cold - other.cold) <= TOLERANCE * other.cold
        return near and abs(self.loads - other.loads) <= LOADS


@dataclass(frozen=True)
class Live:
    """What a loop wrote down."""

    past: Past
    waited: Waited

    @property
    def seconds(self) -> dict[str, list[float]]:
        """How long each model's loads took, in order."""
        found: dict[str, list[float]] = {}
        for record in self.past.loads:
            found.setdefault(record.model, []).append(record.seconds)
        return found

    @property
    def even(self) -> bool:
        """Whether the loads of each model took about the same."""
        return all(max(took) <= EVEN * min(took) for took in self.seconds.values())


class AsLong:
    """Plans like the loop, and has every simulated load take as long as the real one did."""

    def __init__(self, layout: Layout, live: Live) -> None:
        self.speeds = dict(layout.speeds)
        self.layout = replace(layout, speeds=self.speeds)
        self.took = {model: iter(seconds) for model, seconds in live.seconds.items()}

    def plan(self, manifest: Manifest, world: World, now: float) -> Plan:
        """Return the plan; the load at its head is begun at once."""
        made = plan(manifest, world, now)
        if isinstance(made.head, Load):
            speed = self.speeds[made.head.model]
            seconds = next(self.took[made.head.model], speed.load)
            self.speeds[made.head.model] = replace(speed, load=seconds)
        return made


class Asked(Background):
    """One request on its way."""

    def __init__(self, client: httpx.Client, model: str) -> None:
        super().__init__()
        self.client, self.model = client, model
        self.start()

    def work(self) -> None:
        answer = self.client.post(CHAT, json=chat(self.model, max_tokens=1))
        assert answer.status_code == 200, answer.text


def mix(names: list[str], count: int, rate: float, seed: int) -> list[tuple[float, str]]:
    """Return times from 0 and models: `rate` requests a second that stay with a model for about six."""
    dice, at, model, made = random.Random(seed), 0.0, names[0], []
    for _ in range(count):
        at += dice.expovariate(rate)
        if dice.random() < 0.25:
            model = dice.choice(names)
        made.append((at, model))
    return made


def drive(manager: Manager, requests: list[tuple[float, str]]) -> None:
    """Send each request at its time, whatever became of the others, and wait until all are answered."""
    began, sent = time.monotonic(), []
    # One client for all: to make one takes the processor from the models.
    with httpx.Client(trust_env=False, timeout=60, base_url=manager.url) as client:
        for at, model in requests:
            time.sleep(max(0.0, began + at - time.monotonic()))
            sent.append(Asked(client, model))
        for each in sent:
            each.finish(60)


def recorded(manager: Manager, requests: int) -> Live:
    """Return what the loop wrote down, which is all of it once it has ended."""
    with peek(manager.state_dir / DATABASE) as store:
        loads = tuple(record for record in store.loads() if record.outcome == "ready")
        past = Past(store.requests(), loads, store.evictions())
    assert [r.outcome for r in past.requests] == ["ok"] * requests
    assert len(loads) >= 4, "too few loads to tell anything"
    return Live(past, Waited(sum(r.cold for r in past.requests), len(loads)))


def replayed(manager: Manager, folder: Path) -> Waited:
    """Export the history and simulate it, as people do."""
    trace = folder / "live.csv"
    done = manager.cli("history", "--export", str(trace), "--force")
    assert done.returncode == 0, done.stderr
    done = manager.cli("simulate", str(trace), "--manifest", str(manager.manifests), "--json")
    assert done.returncode == 0, done.stderr
    [only] = json.loads(done.stdout)["runs"]
    assert only["waits"]["served"] == only["waits"]["requests"]
    return Waited(only["waits"]["cold_seconds"], only["loads"])


def repeated(manager: Manager, live: Live) -> Waited:
    """Simulate it with every load as long as it was."""
    applied = load_manifest(manager.manifests, environ=os.environ)
    world = look(applied, manager.state_dir).world
    same = AsLong(layout_here(applied, world, name="live", past=live.past), live)
    result = run(same.layout, trace_of_requests(live.past.requests), planner=same.plan)
    return Waited(result.total.cold_seconds, result.loads)


def compare(
    new_manager: NewManager,
    models: Callable[[Manager], Models],
    memory: int,
    requests: list[tuple[float, str]],
    folder: Path,
) -> None:
    """Record, simulate and compare."""
    tries: list[str] = []
    right = even = False
    for _ in range(TRIES):
        manager = new_manager()
        manager.write(models(manager), memory=memory, prewarm="off")
        manager.start()
        drive(manager, requests)
        assert manager.stop() == 0
        live = recorded(manager, len(requests))
        same, usual = repeated(manager, live), replayed(manager, folder)
        if same.like(live.waited) and usual.like(live.waited):
            return
        right, even = right or same.like(live.waited), even or live.even
        tries.append(f"recorded {live.waited}, simulated {usual}, repeated {same}, loads took {live.seconds}")
    if right and not even:
        pytest.skip(f"the machine has other things to do; only with each load as long as it was: {tries}")
    pytest.fail("\n".join(tries))


@pytest.mark.engine
@pytest.mark.alone
def test_a_live_run_of_llama_cpp_and_its_replay(new_manager: NewManager, tmp_path: Path) -> None:
    """Three sizes, of which the two smaller ones fit together, and the largest fits alone."""
    pytest.importorskip("xllamacpp")
    sizes = {"small": 200, "middle": 400, "large": 700}
    files = {
        name: write_llama(tmp_path / name / "model.gguf", pad_mib=mib, seed=mib)
        for name, mib in sizes.items()
    }

    def models(_: Manager) -> Models:
        return {
            name: {
                "weights": str(files[name]),
                "context": {"max_tokens": 512, "bytes_per_token": context_bytes_per_token(pad_mib=mib)},
                "memory": {"mode": "none"},
            }
            for name, mib in sizes.items()
        }

    compare(new_manager, models, 800, mix(list(sizes), 60, 2.8, seed=9), tmp_path)


@pytest.mark.alone
def test_a_live_run_of_models_that_take_their_time_and_its_replay(
    new_manager: NewManager, tmp_path: Path
) -> None:
    """Four models, of which two or three fit: whom to evict is a choice, and it is the same one."""
    loads = {"a": (0.5, 300), "b": (0.8, 300), "c": (1.1, 400), "d": (1.5, 500)}

    def models(manager: Manager) -> Models:
        return {
            name: manager.fake(name, "--load", str(seconds), "--think", "0.15", size=size)
            for name, (seconds, size) in loads.items()
        }

    compare(new_manager, models, 1000, mix(sorted(loads), 40, 3.5, seed=28), tmp_path)
