"""Simulations made up by hand: what is shown of them can be checked by hand too."""

from dataclasses import replace

from reconciler.core.memory import Estimate, Memory
from reconciler.core.types import Manifest, ModelSpec, Policy, Preflight, Prewarm, Reason, Residency
from reconciler.render.simulate_shapes import SimulateDocument, TraceDocument, UnknownDocument
from reconciler.simulate.layout import Layout, Speed
from reconciler.simulate.report import Run, report
from reconciler.simulate.result import Action, Result, Waits

GIB = 1 << 30
HOUR = 3600.0
SIZES: dict[str, int | None] = {"chat": 40 * GIB, "coder": 22 * GIB, "embed": GIB}
MODELS = (
    ModelSpec("chat", "d1"),
    ModelSpec("coder", "d2", steady=22 * GIB),
    ModelSpec("embed", "d3", steady=GIB, residency=Residency.PINNED),
)
#: What the files say of chat: 4 GiB of its 40 are the context.
PREFLIGHTS = (
    Preflight(
        "chat",
        steady=40 * GIB,
        parts=Estimate(weights=35 * GIB, context=4 * GIB, compute=GIB),
        context_tokens=65536,
    ),
)
MEMORY = Memory(total=64 * GIB, available=64 * GIB)


def layout(name: str, policy: Policy = Policy.LRU, prewarm: Prewarm = Prewarm.OFF) -> Layout:
    """Return three models on 60 GiB: chat and coder do not fit together."""
    manifest = Manifest(MODELS, policy=policy, prewarm=prewarm, reserve=4 * GIB)
    speeds = {model.name: Speed(load=10) for model in MODELS}
    return Layout(name, manifest, MEMORY, speeds, PREFLIGHTS)


def _actions(begin: float, swaps: int, every: float) -> tuple[Action, ...]:
    """Return embed loaded at once, then chat and coder in turns, each wanted again as the other comes."""
    made = [Action("load", "embed", Reason.PINNED, begin, begin + 1)]
    there = ""
    for turn in range(swaps):
        at, model = begin + 10 + turn * every, ("chat", "coder")[turn % 2]
        if there:
            back = every - 2 if turn < swaps - 1 else None
            made.append(Action("evict", there, Reason.MAKE_ROOM, at, at + 2, model, back))
        made.append(Action("load", model, Reason.DEMANDED, at + 2, at + 12))
        there = model
    return tuple(made)


def result(
    name: str = "desk.yaml", *, begin: float = 8 * HOUR, swaps: int = 6, every: float = 50.0
) -> Result:
    """Return a run in which chat and coder swapped that often, a load in advance that was used and one in vain."""
    actions = _actions(begin, swaps, every)
    ended = begin + 10 + swaps * every + HOUR
    late = actions[-1].ended + 600
    actions += (
        Action("evict", actions[-1].model, Reason.LESS_LIKELY, late, late + 2, "chat"),
        Action("load", "chat", Reason.PREWARM, late + 2, late + 12, used_after=30.0),
        Action("load", "coder", Reason.PREWARM, late + 700, late + 704, aborted=True),
    )
    cold = float(11 * swaps)
    waits = Waits(
        40 * swaps, 40 * swaps - 2, {"queue_full": 2}, swaps, cold, cold + 3, 0.0, 4.25, 14.0, 900.0
    )
    models = {
        "chat": replace(waits, requests=20 * swaps, cold=swaps // 2, cold_seconds=cold / 2),
        "coder": replace(
            waits, requests=20 * swaps, cold=swaps - swaps // 2, cold_seconds=cold / 2, refused={}
        ),
        "embed": Waits(requests=0),
    }
    return Result(
        name=name,
        began=begin,
        ended=ended,
        total=waits,
        models=models,
        clients={"anna": models["chat"], "ben": models["coder"]},
        actions=actions,
        residency=_residency(actions, ended),
        budget=60 * GIB,
        held_mean=38.5 * GIB,
        held_most=41 * GIB,
        sizes=SIZES,
        load_seconds=1 + 10.0 * (swaps + 1) + 4,
        evict_seconds=2.0 * swaps,
        waiting={name: _waiting(actions, name) for name in ("chat", "coder")},
    )


def _waiting(actions: tuple[Action, ...], model: str) -> tuple[tuple[float, float, int], ...]:
    """Return two to four requests for each load that somebody waited for."""
    loads = [a for a in actions if a.kind == "load" and (a.model, a.reason) == (model, Reason.DEMANDED)]
    return tuple((a.began - 2, a.ended, 2 + number % 3) for number, a in enumerate(loads))


def _residency(actions: tuple[Action, ...], ended: float) -> dict[str, tuple[tuple[float, float], ...]]:
    spans: dict[str, list[tuple[float, float]]] = {}
    for action in actions:
        if action.aborted:
            continue
        own = spans.setdefault(action.model, [])
        if action.kind == "load":
            own.append((action.ended, ended))
        else:
            own[-1] = (own[-1][0], action.began)
    return {model: tuple(own) for model, own in spans.items()}


def trace_document(**changes: object) -> TraceDocument:
    """Return a trace of which some requests name a model that is not there."""
    made = TraceDocument(
        source="monday.csv",
        requests=240,
        models=3,
        clients=2,
        timed=0,
        began=8 * HOUR,
        ended=8 * HOUR + 310,
        unknown=(UnknownDocument("choder", 4, "coder"),),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def one_run(*, clients: bool = True) -> SimulateDocument:
    """Return the document of one run."""
    run = Run("desk.yaml", layout("desk.yaml"), result())
    return report(trace_document(), None, [run], clients=clients)


def runs(count: int) -> SimulateDocument:
    """Return the document of that many runs, each with fewer swaps than the one before."""
    kinds = [(p, w) for p in (Policy.LRU, Policy.COST) for w in (Prewarm.OFF, Prewarm.FREE, Prewarm.FULL)]
    made = []
    for number, (policy, prewarm) in enumerate(kinds[:count]):
        name = f"{policy}, {prewarm}"
        made.append(Run("desk.yaml", layout(name, policy, prewarm), result(name, swaps=12 - 2 * number)))
    return report(trace_document(), "machine.yaml", made, clients=False)
