"""Hand-made plans and snapshots that render and the command line are tested with."""

from dataclasses import replace

from reconciler.board import Progress, Snapshot
from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.machine import Evicting, Idle, Loading, Settling, State
from reconciler.core.memory import Estimate, HostUse, Memory, Said
from reconciler.core.pressure import Level, Pressure
from reconciler.core.status import Condition, Truth
from reconciler.core.types import (
    Account,
    Demand,
    Evict,
    Instance,
    LedgerEntry,
    Load,
    Manifest,
    ModelSpec,
    Observation,
    Outcome,
    Plan,
    Preflight,
    Reason,
    Residency,
    Verdict,
    World,
)
from reconciler.manifest.applied import ApiKey, Applied, GatewaySettings, RequestLimits, Source

NOW = 5000.0
SECRET = "CANARY-secret"
HOST = HostUse(32 << 30, 5 << 30, programs=20 << 30, kernel=1 << 30)
CODER = Estimate(16 << 30, 2 << 30, 1 << 30, overhead=1 << 30, loading=1 << 29)
SOURCE = Source("manifests/", ("manifests/desk.yaml",), "3f2c1ab", git_dirty=False)


def gib(count: float) -> int:
    return int(count * (1 << 30))


def mib(count: float) -> int:
    return int(count * (1 << 20))


def design_plan() -> Plan:
    """The plan shown in the design: one model makes room for another."""
    return Plan(
        generation=7,
        seq=41,
        account=Account(gib(24), gib(18.7), gib(1), gib(4.3)),
        steps=(
            Evict(
                "qwen3-30b",
                4100,
                977,
                gib(18.1),
                Reason.MAKE_ROOM,
                for_model="coder-32b",
                detail="priority 500 <= 750, idle 14m",
                free=gib(22.4),
            ),
            Load("coder-32b", "d1", gib(20.4), Reason.DEMANDED, "2 requests waiting, oldest 3.1s", gib(2)),
        ),
        verdicts=(
            Verdict("coder-32b", Outcome.LOAD, Reason.DEMANDED, gib(20.4), "2 requests waiting, oldest 3.1s"),
            Verdict("embed", Outcome.KEEP, Reason.PINNED, gib(0.6)),
            Verdict("qwen3-30b", Outcome.EVICT, Reason.MAKE_ROOM, gib(18.1)),
            Verdict("vision", Outcome.BLOCKED, Reason.INSUFFICIENT_MEMORY, gib(9), "7.0 GiB short"),
        ),
    )


def reload_plan() -> Plan:
    """A drifted model is replaced, one is removed, and small sizes stand beside large ones; twelve steps in all."""
    loads = tuple(
        Load(f"m{n:02}", "d", mib(30), Reason.WARM, "", gib(10) - n * mib(30)) for n in range(1, 10)
    )
    return Plan(
        generation=8,
        seq=42,
        account=Account(gib(16), gib(6), 0, gib(10)),
        steps=(
            Evict("chat", 1, 2, gib(5), Reason.DRIFTED, detail="its settings changed", free=gib(15)),
            Load("chat", "d2", gib(5), Reason.PINNED, "", gib(10)),
            *loads,
            Evict(
                "gone", 3, 4, gib(1), Reason.REMOVED, drain=True, detail="not in the manifest", free=gib(10.7)
            ),
        ),
        verdicts=(
            Verdict("chat", Outcome.RELOAD, Reason.DRIFTED, gib(5), "its settings changed"),
            Verdict("gone", Outcome.EVICT, Reason.REMOVED, gib(1), "not in the manifest"),
            *(Verdict(load.model, Outcome.LOAD, Reason.WARM, mib(30)) for load in loads),
            Verdict("odd", Outcome.COLD, Reason.NOT_WANTED, None, "loads when a request asks for it"),
        ),
    )


def quiet_plan(*, blocked: bool = False) -> Plan:
    """Nothing to do, on a machine of less than one GiB."""
    verdicts = [
        Verdict("chat", Outcome.KEEP, Reason.WARM, mib(350), "idle 14m"),
        Verdict("embed", Outcome.KEEP, Reason.IN_USE, mib(90), "2 requests being served"),
        Verdict("long", Outcome.COLD, Reason.NOT_WANTED, mib(500), "loads when a request asks for it"),
    ]
    if blocked:
        verdicts.append(
            Verdict("zeta", Outcome.BLOCKED, Reason.BACKING_OFF, mib(10), "exit 1\n\x1b[31mred", 12.0)
        )
    return Plan(7, 43, Account(mib(600), mib(440), 0, mib(160)), (), tuple(verdicts))


def blind_plan() -> Plan:
    """The machine's memory could not be read."""
    blocked = Verdict(
        "chat", Outcome.BLOCKED, Reason.MEMORY_UNKNOWN, None, "the machine's memory could not be read"
    )
    return Plan(1, 1, Account(None, None, 0, None), (), (blocked,))


def _specs() -> tuple[ModelSpec, ...]:
    return (
        ModelSpec("chat", "dc", priority=750, residency=Residency.PINNED),
        ModelSpec("coder", "dk", priority=500, steady=gib(20)),
        ModelSpec("embed", "de", priority=1000, residency=Residency.WARM),
        ModelSpec("flaky", "df", priority=250),
        ModelSpec("vision", "dv", priority=250),
    )


def _instances() -> tuple[Instance, ...]:
    return (
        Instance("chat", "dc", 4100, 977, 18100, True, gib(2), gib(4), NOW - 4000, NOW - 840, 12),
        Instance("coder", "dk", 4242, 1200, 18102, False, mib(300), mib(10), NOW, NOW),
        Instance("embed", "de", 4101, 978, 18101, True, mib(600), 0, NOW - 300, NOW - 3, 7),
        Instance("old", "dx", 4102, 979, 18103, True, None, None, NOW - 300, NOW - 300),
    )


def applied() -> Applied:
    """A manifest of five models, with secrets in places that must never be shown."""
    specs = _specs()
    launches = {
        spec.name: LaunchSpec(
            spec.name,
            "llama.cpp",
            command=("serve", "--api-key", SECRET),
            weights=f"/weights/{spec.name}.gguf",
            role=Role.EMBEDDING if spec.name == "embed" else Role.CHAT,
            env=(("HF_TOKEN", SECRET),),
            args=(f"--api-key={SECRET}",),
        )
        for spec in specs
    }
    return Applied(
        manifest=Manifest(specs),
        launches=launches,
        routes={**{spec.name: spec.name for spec in specs}, "gpt-4o": "chat", "claude": "chat"},
        limits={spec.name: RequestLimits() for spec in specs},
        gateway=GatewaySettings(api_keys=(ApiKey(SECRET),)),
        ports=(18100, 18199),
        digest="abc123",
        source=SOURCE,
        warnings=("chat: context.slots is 1, so requests wait for each other",),
    )


def _verdicts() -> tuple[Verdict, ...]:
    return (
        Verdict("chat", Outcome.KEEP, Reason.PINNED, gib(6), "idle 14m"),
        Verdict("coder", Outcome.KEEP, Reason.LOADING, gib(20), "being loaded"),
        Verdict("embed", Outcome.KEEP, Reason.IN_USE, gib(0.6), "1 request being served"),
        Verdict(
            "flaky",
            Outcome.BLOCKED,
            Reason.BACKING_OFF,
            gib(1),
            "failed 3 times, tries again in 45s: exit 1",
            45.0,
        ),
        Verdict("old", Outcome.EVICT, Reason.REMOVED, None, "not in the manifest"),
        Verdict("vision", Outcome.BLOCKED, Reason.INSUFFICIENT_MEMORY, gib(9), "7.0 GiB short"),
    )


def condition(kind: str, status: Truth, reason: str, message: str = "", age: float = 60.0) -> Condition:
    return Condition(kind, status, reason, message, 7, NOW - age)


def snapshot(state: State | None = None, progress: Progress | None = None) -> Snapshot:
    """A busy desk: one model loading, one failing, one blocked, one left over from an older manifest."""
    coder = Load("coder", "dk", gib(20), Reason.DEMANDED)
    return Snapshot(
        at=NOW - 1,
        applied=applied(),
        world=World(
            Observation(
                41,
                NOW - 1,
                Memory(gib(32), gib(5.1), "/proc/meminfo", host=HOST),
                _instances(),
                (
                    Demand("coder", waiting=2, oldest=NOW - 12.5),
                    Demand("embed", active=1),
                    Demand("vision", wanted=True),
                ),
                (Preflight("coder", steady=gib(20), parts=CODER),),
                Pressure(Level.SOFT, 0.81, cause="81 % of the memory is in use, the soft mark is 75 %"),
            ),
            (
                LedgerEntry(
                    "coder", "dk", gib(19), load_seconds=18.2, said=Said(context=gib(2), compute=mib(300))
                ),
                LedgerEntry(
                    "flaky",
                    "df",
                    failures=3,
                    retry_at=NOW + 45,
                    last_error="exit 1: cannot open\nx",
                    kind=FailureKind.CRASHED,
                ),
            ),
        ),
        plan=Plan(7, 41, Account(gib(28.8), gib(6.6), gib(20), gib(2.2)), (), _verdicts()),
        state=state or Loading(coder, NOW - 12, NOW + 108),
        manifest_conditions=(
            condition("ManifestValid", Truth.TRUE, "Applied", "the newest manifest is in force"),
            condition(
                "MemoryPressure", Truth.TRUE, "Soft", "81 % of the memory is in use, the soft mark is 75 %", 8
            ),
            condition("Ready", Truth.TRUE, "PinnedReady", "1 of 1 pinned models are ready", 200),
        ),
        model_conditions={
            "chat": (
                condition("Ready", Truth.TRUE, "Serving", "answers requests"),
                condition(
                    "Degraded", Truth.TRUE, "OverEstimate", "holds 6.0 GiB, 2.0 GiB more than it says", 90
                ),
            ),
            "coder": (
                condition("Ready", Truth.FALSE, "Loading", "being loaded"),
                condition("Progressing", Truth.TRUE, "Loading", "loading coder (Demanded)"),
            ),
            "flaky": (
                condition("Ready", Truth.FALSE, "BackingOff", "failed 3 times", 130),
                condition("Degraded", Truth.TRUE, "Failing", "failed 3 times: exit 1: cannot open\nx", 130),
            ),
        },
        progress=progress or Progress("coder", "loading", NOW - 12, 18.2),
        pid=4000,
        version="0.1.0",
        log_paths={"coder": "/state/logs/coder.log", "flaky": "/state/logs/flaky.log"},
    )


def refused_snapshot() -> Snapshot:
    """The newest text of the manifest is broken; nothing is being done."""
    return replace(
        snapshot(),
        state=Idle(),
        progress=None,
        manifest_conditions=(
            condition("ManifestValid", Truth.FALSE, "Refused", "2 errors, generation 7 stays in force"),
            condition("Ready", Truth.FALSE, "PinnedNotReady", "not ready: chat", 5),
        ),
        refused=(
            'manifests/desk.yaml:3:5: error: unknown key "modles" [unknown-key]',
            "manifests/desk.yaml:9:13: error: 8g is no size [size]",
        ),
    )


STATES: tuple[tuple[State, Progress | None, str], ...] = (
    (Idle(), None, "none"),
    (
        Loading(Load("coder", "dk", 1, Reason.WARM), NOW - 12, NOW + 9),
        Progress("coder", "loading", NOW - 12, 18.2),
        "loading coder, 12 s of about 18 s",
    ),
    (
        Evicting(Evict("chat", 1, 2, 1, Reason.MAKE_ROOM, drain=True), NOW - 2, NOW + 9),
        Progress("chat", "stopping", NOW - 1),
        "stopping chat, 2 s",
    ),
    (
        Evicting(Evict("chat", 1, 2, 1, Reason.MAKE_ROOM, drain=True), NOW - 2, NOW + 9),
        None,
        "draining chat, 2 s",
    ),
    (
        Evicting(Evict("chat", 1, 2, 1, Reason.MAKE_ROOM, drain=True), NOW - 2, NOW + 9),
        Progress("chat", "saving", NOW - 1, 30.0),
        "saving the state of chat, 2 s of at most 30 s",
    ),
    (Settling("chat", None, NOW - 3, NOW + 7), None, "settling chat, 3 s"),
)
