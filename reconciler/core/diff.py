"""Compare what is wanted with what runs: one row a model, and what runs that nobody wants."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from reconciler.core import book
from reconciler.core.shares import Files, own, within
from reconciler.core.types import (
    Demand,
    Instance,
    LedgerEntry,
    Manifest,
    ModelSpec,
    Preflight,
    Reason,
    Residency,
    World,
)

#: What is asked of a model that nobody asks for: most of them, so it is made once.
NOBODY: Final = Demand("")


class Fitness(StrEnum):
    """How a model's process compares with its spec."""

    FRESH = "Fresh"
    DRIFTED = "Drifted"
    FAILING = "Failing"
    MISSING = "Missing"


@dataclass(slots=True, eq=False)
class Row:
    """All that is known of one model of the manifest. Mutable only while one plan is being made."""

    #: Both are the spec's: said here once, because a plan asks for them a dozen times a model.
    name: str
    pinned: bool
    spec: ModelSpec
    instance: Instance | None
    demand: Demand
    preflight: Preflight | None
    entry: LedgerEntry | None
    size: int | None
    need: int | None
    #: What the running instance is charged; 0 without one, None = unknown.
    charge: int | None
    fitness: Fitness
    #: Mapped files that it needs once loaded, and that its running instance holds: in memory once for all models.
    files: Files = ()
    held_files: Files = ()
    #: What the running instance is charged besides mapped files; unknown counts 0.
    own_charge: int = 0
    #: Its process that sleeps, as a row of its own: the model itself does not run.
    sleeper: "Row | None" = None
    #: What evicting its instance costs, in the unit of the policy; see `core.victims.rank`.
    loss: float = 0.0
    #: Seconds it is expected to spare those who will want it, where something is known of its use and that is asked.
    worth: float | None = None
    #: Whether somebody is being served, is about to be, or holds it.
    busy: bool = field(init=False)
    #: Whether somebody waits for it or asked for it, or the manifest insists: it may displace others.
    demanded: bool = field(init=False)
    #: Whether it should be loaded, be it only when there is room.
    wanted: bool = field(init=False)

    @property
    def asleep(self) -> bool:
        """Whether this is the row of a process that sleeps."""
        return self.instance is not None and self.instance.asleep

    def __post_init__(self) -> None:
        """Work out what a plan asks for several times a model."""
        demand, spec = self.demand, self.spec
        self.busy = demand.waiting > 0 or demand.in_use
        self.demanded = self.pinned or demand.waiting > 0 or demand.wanted
        self.wanted = self.demanded or (spec.residency is Residency.WARM and not demand.dismissed)


def fitness(
    spec: ModelSpec,
    instance: Instance | None,
    preflight: Preflight | None,
    entry: LedgerEntry | None,
    now: float,
) -> Fitness:
    """Return how a model's process compares with its spec, and with the weights as they are now."""
    if instance is not None:
        fresh = instance.digest == spec.digest and not weights_replaced(instance, preflight)
        return Fitness.FRESH if fresh else Fitness.DRIFTED
    return Fitness.FAILING if book.waits(entry, preflight, now) else Fitness.MISSING


def weights_replaced(instance: Instance, preflight: Preflight | None) -> bool:
    """Return whether the weights are known to be others than a process was started with, and could be loaded."""
    if preflight is None or preflight.reason is not None:
        return False
    return any(replaced(instance.weights, preflight.weights))


def replaced(was: str, now: str) -> tuple[bool, bool]:
    """Return whether weights, and whether sources, are known to be others: in a fingerprint a `+` is between the two.

    >>> replaced("a1+b1", "a1+b2"), replaced("a1", "a2"), replaced("", "a1"), replaced("a1", "a1+b1")
    ((False, True), (True, False), (False, False), (False, False))
    """
    first, _, first_sources = was.partition("+")
    second, _, second_sources = now.partition("+")
    # What nobody noted then, or can tell now, is no reason to end anything.
    return (
        bool(first and second) and first != second,
        bool(first_sources and second_sources) and first_sources != second_sources,
    )


@dataclass(slots=True)
class Table:
    """The whole comparison: rows sorted by name, and stray instances sorted by (model, pid)."""

    rows: list[Row]
    #: Processes of models the manifest does not name, and second processes of a model it does. Not those that sleep
    #: for a model that does not run: these are in its row.
    strays: list[Instance]
    #: Models the manifest does not name whose process still serves requests.
    still_serving: frozenset[str] = frozenset()
    #: Those of them whose drain was called off a moment ago.
    spared: frozenset[str] = frozenset()


def compare(manifest: Manifest, world: World, now: float) -> Table:
    """Return a row for every model of the manifest and the instances no row accounts for."""
    chosen, sleeping, strays = _match(manifest, world.observation.instances)
    demands = {d.model: d for d in world.observation.demands}
    preflights = {p.model: p for p in world.observation.preflights}
    entries = {(e.model, e.digest): e for e in world.ledger}
    rows = []
    for spec in manifest.models:
        name = spec.name
        preflight, entry, instance = preflights.get(name), entries.get((name, spec.digest)), chosen.get(name)
        size = book.size(spec, preflight, entry)
        need = book.load_need(spec, preflight, entry, size)
        fits = fitness(spec, instance, preflight, entry, now)
        row = Row(
            name=name,
            pinned=spec.residency is Residency.PINNED,
            spec=spec,
            instance=instance,
            demand=demands.get(name, NOBODY),
            preflight=preflight,
            entry=entry,
            size=size,
            need=need,
            charge=0,
            fitness=fits,
            files=within(preflight.files, size) if preflight else (),
        )
        if instance is not None:
            # A drifted one was sized by its old settings: it is charged what its own launch is known to need.
            launched = _own_size(entries, instance) if fits is Fitness.DRIFTED else size
            _charge(row, instance, launched)
        elif name in sleeping:
            row.sleeper = _sleeper(row, sleeping[name], now)
        rows.append(row)
    named = {spec.name for spec in manifest.models}
    serving = frozenset(d.model for d in demands.values() if d.in_use and d.model not in named)
    left = frozenset(d.model for d in demands.values() if d.model in serving and d.spared is Reason.REMOVED)
    return Table(rows, strays, serving, left)


def _sleeper(row: Row, instance: Instance, now: float) -> Row:
    """Return the row of a process that sleeps for a model: charged what it holds, and nothing for what it may do."""
    charge = book.held(instance)
    files = within(instance.files, charge)
    fits = fitness(row.spec, instance, row.preflight, row.entry, now)
    sleeping = replace(row, instance=instance, size=None, need=None, charge=charge, fitness=fits, files=())
    sleeping.held_files, sleeping.own_charge = files, own(charge or 0, files)
    return sleeping


def _charge(row: Row, instance: Instance, launched: int | None) -> None:
    """Note what a running instance is charged, and its files: whole where they are known, else as far as they are
    resident.
    """
    charge = book.charge(instance, launched if instance.ready else row.need)
    expected = row.preflight.files if row.preflight is not None and row.fitness is Fitness.FRESH else ()
    row.held_files = within(expected or instance.files, charge)
    row.charge, row.own_charge = charge, own(charge or 0, row.held_files)


def _own_size(entries: dict[tuple[str, str], LedgerEntry], instance: Instance) -> int | None:
    entry = entries.get((instance.model, instance.digest))
    return max(instance.admitted, entry.peak if entry else 0) or None


def _match(
    manifest: Manifest, instances: Iterable[Instance]
) -> tuple[dict[str, Instance], dict[str, Instance], list[Instance]]:
    """Choose one instance a model (the fresh, ready, oldest one); the rest, and what is broken or hangs, are strays.

    Second come those that sleep, of models of which none is awake.
    """
    digests = {spec.name: spec.digest for spec in manifest.models}
    ordered = sorted(
        instances,
        key=lambda i: (i.model, i.asleep, i.digest != digests.get(i.model), not i.ready, i.started, i.pid),
    )
    chosen: dict[str, Instance] = {}
    sleeping: dict[str, Instance] = {}
    strays = []
    for instance in ordered:
        known = instance.model in chosen or instance.model in sleeping
        if instance.model in digests and not known and not (instance.broken or instance.hung):
            (sleeping if instance.asleep else chosen)[instance.model] = instance
        else:
            strays.append(instance)
    return chosen, sleeping, sorted(strays, key=lambda i: (i.model, i.pid))
