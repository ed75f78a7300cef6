"""From a manifest to what is simulated: with the figures that a dry run sees, on this machine or a described one."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.core import book
from reconciler.core.memory import Memory, Stall, Swap
from reconciler.core.types import Instance, Preflight, World
from reconciler.loop.admission import admissions
from reconciler.manifest import described
from reconciler.manifest.applied import Applied
from reconciler.manifest.machine_file import DescribedMachine
from reconciler.simulate.layout import Layout, Speed
from reconciler.simulate.speeds import speeds, speeds_there
from reconciler.simulate.speeds_past import Past

NOTHING = Past()


def layout_here(applied: Applied, world: World, *, name: str, past: Past = NOTHING) -> Layout:
    """Return the manifest on this machine; `world` is as it was looked at, whatever is loaded in it.

    Failures in the ledger are forgotten, and what a model is charged more for them for a while: in a simulation every
    load succeeds that is possible at all.
    """
    seen = world.observation
    found = tuple(sorted(seen.preflights, key=lambda p: p.model))
    known = tuple(
        replace(book.forgotten(entry), peak=entry.peak, said=entry.said)
        for entry in sorted(world.ledger, key=lambda e: (e.model, e.digest))
    )
    by_launch = {(entry.model, entry.digest): entry for entry in known}
    fast = speeds(applied.manifest.models, {p.model: p for p in found}, by_launch, past)
    made = _layout(applied, name, unloaded(seen.memory, seen.instances), found, fast)
    return replace(made, ledger=known)


def layout_there(applied: Applied, machine: DescribedMachine, *, name: str) -> Layout:
    """Return the manifest on a described machine. What it says is loaded, or waited for, does not count. Blocks.

    Nothing that was measured here counts, neither sizes nor speeds: it is another machine.
    """
    found = described.preflights(applied, machine)
    fast = speeds_there(applied.manifest.models, {p.model: p for p in found}, machine)
    return _layout(applied, name, described.memory_of(machine), found, fast)


def _layout(
    applied: Applied, name: str, memory: Memory, found: tuple[Preflight, ...], fast: Mapping[str, Speed]
) -> Layout:
    """Return what is simulated: `memory` is that of a machine on which none of the models is loaded."""
    return Layout(
        name=name,
        manifest=applied.manifest,
        memory=memory,
        speeds=fast,
        preflights=found,
        admissions=admissions(applied, found),
        limits={model: limit.queue for model, limit in sorted(applied.limits.items())},
        gates={gate: it.limit for gate, it in sorted(applied.gateway.gates.items())},
        urgency={model: limit.priority for model, limit in sorted(applied.limits.items())},
        routes=routes(applied),
    )


def routes(applied: Applied) -> dict[str, str]:
    """Return every name that clients use, and its model.

    A trace does not say what is in a request, so of a virtual name only the last rule, which always holds, can be
    followed, and of that the first model: what its strategy would choose depends on the moment.
    """
    found = dict(applied.routes)
    for name, virtual in applied.virtual.items():
        found[name] = virtual.rules[-1].use[0]
    return dict(sorted(found.items()))


def unloaded(memory: Memory, instances: Iterable[Instance]) -> Memory:
    """Return the memory as it would be without these models: what they hold is available, what waited for it does not.

    Their warm pages count as available already. One whose memory could not be read gives nothing back.
    """
    running = tuple(instances)
    held = sum(i.committed or 0 for i in running)
    device = sum(i.device for i in running)
    available = memory.available
    if available is not None:
        available += held
        available = available if memory.total is None else min(available, memory.total)
    host, gpu = memory.host, memory.gpu
    if host is not None:
        host = replace(
            host,
            available=min(host.total, host.available + held),
            programs=max(0, host.programs - (held - device)),
        )
    if gpu is not None and gpu.used is not None:
        gpu = replace(gpu, used=max(0, gpu.used - device))
    return replace(
        memory, available=available, host=host, gpu=gpu, swap=_at_rest(memory.swap), stall=Stall(), files=None
    )


def _at_rest(swap: Swap) -> Swap:
    return Swap(total=swap.total, used=0 if swap.total is not None else None)
