"""How fast each model is: as the description of a machine says, as it was measured here, or estimated by size.

What was measured here counts only for this machine, and only of processes with the same launch digest: on another
machine, or with other settings, a model of the same name is another model.

The estimates, for a model of S bytes whose weights are W bytes:

    load    S / 3 GB/s + 2 s           (or the rate of `disk` that a described machine states)
    evict   1 s
    output  100 GB/s / W, at most 200 tokens a second: each token is worked out of all the weights, so memory that
            reads 100 GB/s, as unified and quadruple-channel memory does, is the bound. Half of it is usual on a
            desktop's memory, four times on the largest laptops; a mixture of experts is faster, for it reads a part.
    prompt  20 times that: the tokens of a prompt are worked out together, until arithmetic is the bound.
    fixed   0.05 s

To a load and an eviction that were measured 0.005 s is added, which the loop takes before each. After a load it takes
0.02 s until it begins something else.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Final

from reconciler.core import book, value
from reconciler.core.types import LedgerEntry, ModelSpec, Preflight
from reconciler.loop.admission import weight
from reconciler.manifest.machine_file import DescribedMachine
from reconciler.manifest.speed_part import SpeedPart
from reconciler.simulate.layout import Origin, Origins, Speed
from reconciler.simulate.speeds_fit import INSTANT, Rates, Served, fit
from reconciler.simulate.speeds_past import Past, of_launches
from reconciler.store.records import EvictionRecord, LoadRecord, RequestRecord

#: Bytes of weights that memory is read at in a second.
BANDWIDTH: Final = 100e9
#: Tokens a second of the smallest models: what every token takes besides its weights.
MOST_OUTPUT: Final = 200.0
#: Tokens of a prompt that are read in the time of one that is written.
PROMPT_FACTOR: Final = 20.0
EVICT_SECONDS: Final = 1.0
FIXED_SECONDS: Final = 0.05
#: Until the next action can begin: 0.01 to 0.1 s on two cores.
AFTER_LOAD: Final = 0.02
#: What looking and planning take before an action begins, which is no part of what was measured of it.
TURN: Final = 0.005
#: Records of one model that count, the newest: engines and habits change.
NEWEST: Final = 2000
NEWEST_ACTIONS: Final = 20
#: Times the usual that one load or eviction counts for at most.
ODD: Final = 3.0


#: A figure, and where it comes from.
Known = tuple[float, Origin]


def speeds(
    specs: Iterable[ModelSpec],
    preflights: Mapping[str, Preflight],
    ledger: Mapping[tuple[str, str], LedgerEntry],
    past: Past,
) -> dict[str, Speed]:
    """Return the speed of every model on this machine, by name. `ledger` is by name and launch digest."""
    models = tuple(specs)
    past = of_launches(past, {spec.name: spec.digest for spec in models})
    served = _served(past.requests)
    made = {}
    for spec in models:
        found, entry = preflights.get(spec.name), ledger.get((spec.name, spec.digest))
        rates, origin = _rates(served.get(spec.name, []), guess(weight(spec, found)))
        load, of_load = _load(spec, book.size(spec, found, entry), entry, past.loads)
        evict, of_evict = _evict(spec.name, past.evictions)
        origins = Origins(of_load, of_evict, origin, origin, origin)
        made[spec.name] = _speed(load, evict, rates, origins)
    return made


def speeds_there(
    specs: Iterable[ModelSpec], preflights: Mapping[str, Preflight], machine: DescribedMachine
) -> dict[str, Speed]:
    """Return the speed of every model on a machine that is only described, by name."""
    made = {}
    for spec in specs:
        found, written = preflights.get(spec.name), machine.speeds.get(spec.name, SpeedPart())
        rates = guess(weight(spec, found))
        size = book.size(spec, found, None)
        load, of_load = _first(written.load, (size or 0) / machine.disk + value.STARTING)
        evict, of_evict = _first(written.evict, EVICT_SECONDS)
        prompt, of_prompt = _first(written.prompt, rates.prompt)
        output, of_output = _first(written.output, rates.output)
        fixed, of_fixed = _first(written.fixed, rates.fixed)
        origins = Origins(of_load, of_evict, of_prompt, of_output, of_fixed)
        made[spec.name] = _speed(load, evict, Rates(prompt, output, fixed), origins)
    return made


def _speed(load: float, evict: float, rates: Rates, origins: Origins) -> Speed:
    return Speed(load, evict, rates.prompt, rates.output, rates.fixed, AFTER_LOAD, origins)


def guess(weights: int | None) -> Rates:
    """Return how fast a model with these bytes of weights is believed to be; None = unknown, then like 10 GB."""
    output = min(MOST_OUTPUT, BANDWIDTH / (weights or 10_000_000_000))
    return Rates(prompt=PROMPT_FACTOR * output, output=output, fixed=FIXED_SECONDS)


def _first(written: float | None, otherwise: float) -> Known:
    return (otherwise, Origin.ASSUMED) if written is None else (written, Origin.STATED)


def _load(spec: ModelSpec, size: int | None, entry: LedgerEntry | None, loads: Sequence[LoadRecord]) -> Known:
    """Return the seconds a load takes: as the last ones with these settings did, else as the last did, else by size."""
    seconds = [r.seconds for r in loads if (r.model, r.kind, r.outcome) == (spec.name, "load", "ready")]
    if seconds:
        return expected(seconds[-NEWEST_ACTIONS:]) + TURN, Origin.MEASURED
    once = entry is not None and entry.load_seconds is not None
    return value.load_seconds(entry, size), Origin.MEASURED if once else Origin.ASSUMED


def expected(seconds: Sequence[float]) -> float:
    """Return what the next one is expected to take: the mean, for people wait as long as all of them take together.

    One that took many times the usual (a disk that was asleep) counts for no more than three times.
    """
    most = ODD * median(seconds)
    return fmean(min(s, most) for s in seconds)


def _evict(model: str, evictions: Sequence[EvictionRecord]) -> Known:
    """Return the seconds an eviction takes. One that drained lasted as long as its requests: idle ones say more."""
    ended = [r for r in evictions if r.model == model and r.outcome == "gone"][-NEWEST_ACTIONS:]
    idle = [r.seconds for r in ended if r.idle > 0]
    if idle:
        return expected(idle) + TURN, Origin.MEASURED
    if ended:
        return min(r.seconds for r in ended) + TURN, Origin.MEASURED
    return EVICT_SECONDS, Origin.ASSUMED


def _served(requests: Iterable[RequestRecord]) -> dict[str, list[RequestRecord]]:
    """Return the requests that were answered, by model."""
    found: dict[str, list[RequestRecord]] = {}
    for record in requests:
        if record.outcome == "ok" and record.seconds > 0:
            found.setdefault(record.model, []).append(record)
    return {model: records[-NEWEST:] for model, records in found.items()}


def _rates(records: Sequence[RequestRecord], believed: Rates) -> tuple[Rates, Origin]:
    """Return the rates that requests show. Where no tokens are known every request takes the median of the seconds."""
    counted = [
        Served(r.seconds, r.prompt_tokens, r.output_tokens or 0)
        for r in records
        if r.prompt_tokens is not None
    ]
    if counted:
        found = fit(counted, believed)
        return (found, Origin.MEASURED) if found is not None else (believed, Origin.ASSUMED)
    if records:
        return Rates(INSTANT, INSTANT, median(r.seconds for r in records)), Origin.MEASURED
    return believed, Origin.ASSUMED
