"""How each model stands, as far as the choice between several depends on it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.board import Snapshot
from reconciler.core import book
from reconciler.core.machine import Evicting, Loading
from reconciler.core.types import Demand, Reason

#: What the plan says of models that a request would wait for in vain.
_HOPELESS: Final = frozenset(
    {Reason.NEVER_FITS, Reason.NOT_STARTABLE, Reason.SIZE_UNKNOWN, Reason.BACKING_OFF, Reason.GIVEN_UP}
)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one model stands now."""

    #: It takes requests.
    ready: bool = False
    #: It is being loaded, or somebody waits for it already: it will be ready without anybody asking.
    coming: bool = False
    #: It could be loaded into what is free, without another one going.
    fits: bool = False
    #: It cannot be loaded: it never fits, or cannot be started.
    never: bool = False


def states_of(snapshot: Snapshot, demands: Iterable[Demand] | None = None) -> Mapping[str, Standing]:
    """Return the standing of every model of the manifest.

    `demands` is what clients want at this moment (`LeaseBook.demands()`): the snapshot may be a moment old, and
    requests that come together must not go to models that displace each other. None = those of the snapshot.
    """
    world, state = snapshot.world, snapshot.state
    wanted = world.observation.demands if demands is None else demands
    waited = {d.model for d in wanted if d.waiting > 0 or d.wanted or d.away}
    leaving = state.action.model if isinstance(state, Evicting) else None
    loading = state.action.model if isinstance(state, Loading) else None
    digests = {m.name: m.digest for m in snapshot.applied.manifest.models}
    instances = [i for i in world.observation.instances if digests.get(i.model) == i.digest]
    instances = [i for i in instances if not (i.broken or i.hung)]
    ready = {i.model for i in instances if i.ready} - {leaving}
    coming = ({i.model for i in instances if not (i.ready or i.asleep)} | waited | {loading}) - {leaving}
    needs, free = _needs(snapshot), snapshot.plan.account.free
    hopeless = {v.model for v in snapshot.plan.verdicts if v.reason in _HOPELESS}
    return {
        name: Standing(
            ready=name in ready,
            coming=name in coming,
            fits=free is not None and (need := needs[name]) is not None and need <= free,
            never=name in hopeless and name not in ready,
        )
        for name in digests
    }


def _needs(snapshot: Snapshot) -> dict[str, int | None]:
    """Return the bytes each model needs while it loads, as the plan counts them; None = unknown.

    What a process of its own holds that sleeps is not needed again.
    """
    asleep = {i.model: i for i in snapshot.world.observation.instances if i.asleep}
    preflights = {p.model: p for p in snapshot.world.observation.preflights}
    entries = {(e.model, e.digest): e for e in snapshot.world.ledger}
    needs = {}
    for spec in snapshot.applied.manifest.models:
        preflight, entry = preflights.get(spec.name), entries.get((spec.name, spec.digest))
        size = book.size(spec, preflight, entry)
        need = book.load_need(spec, preflight, entry, size)
        if need is not None and (own := asleep.get(spec.name)) is not None and own.digest == spec.digest:
            need = max(0, need - (book.held(own) or 0))
        needs[spec.name] = need
    return needs
