"""Made-up desks for the dashboard, planned by the real core: what a page shows of them is what a manager would say."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reconciler.board import Progress, Snapshot
from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.machine import Idle, Loading
from reconciler.core.memory import Estimate, HostUse, Memory, Said, Watermarks
from reconciler.core.plan import plan
from reconciler.core.pressure import Level, Pressure
from reconciler.core.status import Facts, of_manifest, of_models
from reconciler.core.types import (
    Demand,
    Instance,
    LedgerEntry,
    Load,
    Manifest,
    ModelSpec,
    Observation,
    Preflight,
    Reason,
    Residency,
    World,
)
from reconciler.manifest.applied import Applied, GatewaySettings, RequestLimits, Source

GIB = 1 << 30


def gib(count: float) -> int:
    """Return GiB in bytes."""
    return int(count * GIB)


@dataclass(frozen=True)
class Made:
    """One model of a desk; `weights` and `context` in GiB."""

    name: str
    weights: float
    context: float
    residency: Residency = Residency.ON_DEMAND
    priority: int = 500
    role: Role = Role.CHAT
    engine: str = "llama.cpp"
    aliases: tuple[str, ...] = ()
    #: Share of its size that it holds; 0 = it is not in memory.
    there: float = 0.0
    ready: bool = True
    #: Seconds since its last request ended.
    idle: float = 60.0
    active: int = 0
    waiting: int = 0
    failures: int = 0
    error: str = "exit 1: error loading model: tensor data out of bounds, the file is corrupted or incomplete"

    @property
    def parts(self) -> Estimate:
        """Its size by kind."""
        rest = gib(0.15 + self.weights * 0.01)
        return Estimate(gib(self.weights), gib(self.context), rest, overhead=rest)

    @property
    def size(self) -> int:
        """Its size together, in bytes."""
        return self.parts.steady or 0

    @property
    def spec(self) -> ModelSpec:
        """What the manifest wants of it."""
        ttl = 900.0 if self.residency is Residency.ON_DEMAND else None
        return ModelSpec(self.name, f"d-{self.name}", self.priority, self.residency, idle_ttl=ttl)

    def instance(self, number: int, now: float) -> Instance:
        """Its process."""
        held = int(self.size * self.there)
        mapped = min(gib(self.weights * 0.9), int(held * 0.8)) if self.engine == "llama.cpp" else 0
        return Instance(
            self.name,
            self.spec.digest,
            4100 + number,
            970 + number,
            18100 + number,
            self.ready,
            held - mapped,
            mapped,
            now - 2400 + number,
            now - self.idle,
            served=7 * number + 3 if self.ready else 0,
            admitted=self.size,
        )

    def entry(self, now: float) -> LedgerEntry:
        """What is remembered of it."""
        failed = self.failures > 0
        known = self.there > 0 and self.ready
        return LedgerEntry(
            self.name,
            self.spec.digest,
            peak=int(self.size * 0.97) if known else 0,
            failures=self.failures,
            retry_at=now + 45 if failed else None,
            last_error=self.error if failed else "",
            kind=FailureKind.CRASHED if failed else None,
            load_seconds=2.0 + self.weights / 2,
            said=Said(gib(self.weights), gib(self.context), gib(0.2), 8192) if known else None,
        )

    def demand(self, now: float) -> Demand:
        """Who uses it."""
        oldest = now - 7.2 if self.waiting else None
        return Demand(self.name, self.active, self.waiting, oldest)


DESK = (
    Made(
        "qwen3-72b",
        40.0,
        2.5,
        Residency.WARM,
        750,
        there=0.99,
        idle=4,
        active=1,
        aliases=("gpt-4o", "claude-sonnet"),
    ),
    Made("quick-14b", 9.0, 1.6, there=0.97, idle=260),
    Made("vision-7b", 4.6, 0.9, priority=400, role=Role.VISION),
    Made("coder-32b", 19.8, 4.0, priority=600, there=0.4, ready=False, waiting=2),
    Made("bge-embed", 1.1, 0.0, Residency.PINNED, 1000, Role.EMBEDDING, "tei", there=1.0, idle=1),
    Made("bge-rerank", 1.1, 0.0, Residency.PINNED, 900, Role.RERANK, "tei", there=1.0, idle=30),
    Made("whisper", 1.6, 0.0, Residency.TRANSIENT, 500, Role.ASR, "whisper.cpp"),
    Made("flux", 22.0, 0.0, Residency.WARM, 250, Role.IMAGE, "comfyui"),
    Made("llama4-109b", 61.0, 6.0, waiting=1),
    Made("mistral-old", 7.4, 1.0, priority=100, failures=3),
)


def desk(now: float) -> Snapshot:
    """A desk in use: one model is being loaded, one waits, one fails, memory is softly short."""
    pressure = Pressure(Level.SOFT, 0.78, cause="78 % of the memory is in use, the soft mark is 75 %")
    return snapshot(DESK, now, others=22.0, pressure=pressure, loading="coder-32b")


def few(now: float) -> Snapshot:
    """Three models in memory, all at rest."""
    made = [replace(m, active=0) for m in DESK if m.name in ("qwen3-72b", "quick-14b", "bge-embed")]
    return snapshot(made, now, others=9.0)


def over_budget(now: float) -> Snapshot:
    """Models hold more than the budget, and the machine is short of memory."""
    grown = {"quick-14b": 2.4, "qwen3-72b": 1.25, "flux": 1.0, "vision-7b": 1.0}
    made = [replace(m, there=grown[m.name]) if m.name in grown else m for m in DESK]
    made = [replace(m, there=0.0, waiting=0, active=0) if not m.ready else m for m in made]
    cause = "91 % of the memory is in use, the hard mark is 85 %"
    pressure = Pressure(
        Level.HARD, 0.91, relieving=True, evident=True, since=now - 20, excess=gib(20), cause=cause
    )
    return snapshot(made, now, others=6.0, pressure=pressure, stated=gib(100))


def crowd(now: float, count: int = 100) -> Snapshot:
    """So many models, a third of them in memory."""
    residencies = (Residency.ON_DEMAND, Residency.WARM, Residency.ON_DEMAND, Residency.TRANSIENT)
    made = [
        Made(
            f"model-{n:03}",
            0.3 + (n * 7 % 23) / 8,
            0.1 + (n % 5) / 4,
            residencies[n % 4],
            (n * 37 % 20) * 50,
            there=0.97 if n % 3 == 0 else 0.0,
            idle=5.0 + n * 3,
            active=1 if n % 30 == 0 else 0,
            waiting=1 if n % 25 == 1 else 0,
            failures=2 if n % 40 == 7 else 0,
        )
        for n in range(count)
    ]
    return snapshot(made, now, others=12.0)


def snapshot(
    made: Iterable[Made],
    now: float,
    *,
    others: float,
    pressure: Pressure | None = None,
    loading: str | None = None,
    stated: int | None = None,
) -> Snapshot:
    """Return what a loop would publish of these models; `others` is what other programs hold, in GiB."""
    models = sorted(made, key=lambda m: m.name)
    specs = tuple(m.spec for m in models)
    manifest = Manifest(specs, 7, stated, 0.1, Watermarks())
    instances = tuple(m.instance(n, now) for n, m in enumerate(models) if m.there)
    memory = _memory(instances, others)
    used = 1 - (memory.available or 0) / gib(128) + sum(i.warm or 0 for i in instances) / gib(128)
    observation = Observation(
        412,
        now - 0.4,
        memory,
        instances,
        tuple(m.demand(now) for m in models if m.active or m.waiting),
        tuple(Preflight(m.name, steady=m.size, peak=m.size, parts=m.parts) for m in models),
        pressure or Pressure(used=used),
    )
    world = World(observation, tuple(m.entry(now) for m in models))
    planned = plan(manifest, world, now)
    state = Idle() if loading is None else Loading(_load(models, loading), now - 4.6, now + 115)
    facts = Facts(manifest, world, planned, state, frozenset(m.name for m in models if m.there and m.ready))
    return Snapshot(
        now,
        _applied(manifest, models),
        world,
        planned,
        state,
        of_manifest(facts, (), now),
        of_models(facts, {}, now),
        progress=None if loading is None else Progress(loading, "loading", now - 4.6, 11.9),
        pid=4000,
        version="0.1.0",
        log_paths={m.name: f"/state/logs/{m.name}.log" for m in models if m.there},
    )


def _memory(instances: Iterable[Instance], others: float) -> Memory:
    """A machine of 128 GiB; 3 GiB are with the kernel and 2 with nobody known."""
    committed = sum(i.committed or 0 for i in instances)
    available = gib(128 - others - 3 - 2) - committed
    host = HostUse(gib(128), available, committed + gib(others), gib(3))
    return Memory(gib(128), available, "/proc/meminfo", host=host)


def _load(models: Iterable[Made], name: str) -> Load:
    model = next(m for m in models if m.name == name)
    return Load(name, model.spec.digest, model.size, Reason.DEMANDED, "2 requests waiting, oldest 7.2s")


def _applied(manifest: Manifest, models: Iterable[Made]) -> Applied:
    models = tuple(models)
    return Applied(
        manifest=manifest,
        launches={
            m.name: LaunchSpec(m.name, m.engine, weights=f"/weights/{m.name}.gguf", role=m.role)
            for m in models
        },
        routes={name: m.name for m in models for name in (m.name, *m.aliases)},
        limits={m.name: RequestLimits() for m in models},
        gateway=GatewaySettings(),
        ports=(18100, 18199),
        digest="abc123",
        source=Source("manifests/", ("manifests/desk.yaml",), "3f2c1ab", git_dirty=False),
    )
