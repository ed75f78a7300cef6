"""What is measured of each model."""

from typing import Final, get_args

from reconciler.board import Snapshot
from reconciler.core.types import Demand
from reconciler.counts import MOST_MODELS
from reconciler.gateway.metrics.exposition import Page, labels
from reconciler.gateway.metrics.family import gauge
from reconciler.leases import QueueTraffic, Traffic
from reconciler.render.memory_document import kept_free, sum_known
from reconciler.render.model_facts import ModelFacts, model_facts, model_state
from reconciler.render.shapes import ModelState

STATES: Final[tuple[str, ...]] = get_args(ModelState)
PARTS: Final = ("weights", "context", "compute", "cache", "overhead", "loading")

MODELS = gauge("models", "Models of the manifest in force.")
STATE = gauge("model_state", "1 for the state a model is in, 0 for the others.", "model", "state")
INFO = gauge(
    "model_info",
    "Always 1: the engine, role and residency of a model of the manifest.",
    "model",
    "engine",
    "role",
    "residency",
)
PRIORITY = gauge("model_priority", "Priority of a model in the manifest.", "model")
HELD = gauge(
    "model_held_bytes",
    "Bytes that a model's processes hold now, measured: committed and warm; 0 = it is not in memory.",
    "model",
)
COMMITTED = gauge(
    "model_committed_bytes",
    "Of the bytes held: those that only the end of its processes gives back, what drivers hold for them among it.",
    "model",
)
WARM = gauge("model_warm_bytes", "Of the bytes held: resident pages of mapped weights.", "model")
DEVICE = gauge("model_device_bytes", "Of the bytes committed: what drivers hold for its processes.", "model")
CHARGED = gauge(
    "model_charged_bytes",
    "Bytes a model is charged, or would be once it is loaded; absent = unknown.",
    "model",
)
RESERVED = gauge(
    "model_reserved_bytes",
    "Bytes a model in memory is charged on top of what it holds: they are kept for it.",
    "model",
)
PEAK = gauge(
    "model_peak_bytes", "Most bytes measured of this launch of a model; absent = never measured.", "model"
)
ESTIMATE = gauge(
    "model_estimate_bytes",
    "Bytes estimated from a model's files, by part; absent = unknown.",
    "model",
    "part",
)
ACTIVE = gauge("model_requests_active", "Requests that a model is serving.", "model")
WAITING = gauge(
    "model_requests_waiting",
    "Requests in a model's queue: for it to be loaded, or for a place or a gate although it is.",
    "model",
    "for",
)
OLDEST = gauge(
    "model_oldest_wait_seconds",
    "Seconds that the request which waits longest for a model has waited; 0 = nobody waits.",
    "model",
)
HOLDS = gauge("model_holds", "Leases held from outside on a model (`reconcile hold`).", "model")
JOBS = gauge("model_jobs", "Jobs that a model's engine says it works on.", "model")
SUSPECT = gauge("model_suspect", "1 while a model that is ready is suspected to hang.", "model")
HUNG = gauge("model_hung", "1 while it is sure that a model hangs.", "model")
IN_A_ROW = gauge("model_failures_in_a_row", "Failed launches of a model since the last good one.", "model")
LAST_LOAD = gauge(
    "model_last_load_seconds", "Seconds the last good load took; absent = there was none.", "model"
)

FAMILIES: Final = (
    MODELS,
    STATE,
    INFO,
    PRIORITY,
    HELD,
    COMMITTED,
    WARM,
    DEVICE,
    CHARGED,
    RESERVED,
    PEAK,
    ESTIMATE,
    ACTIVE,
    WAITING,
    OLDEST,
    HOLDS,
    JOBS,
    SUSPECT,
    HUNG,
    IN_A_ROW,
    LAST_LOAD,
)


def write(page: Page, snapshot: Snapshot, traffic: Traffic, now: float) -> None:
    """Write what there is of each model of the manifest, the first ones by name if there are very many.

    `traffic` is what goes on now; the rest is as the loop saw it last.
    """
    page.add(MODELS, len(snapshot.applied.manifest.models))
    queues = {queue.model: queue for queue in traffic.queues}
    for fact in [f for f in model_facts(snapshot) if f.spec is not None][:MOST_MODELS]:
        known = labels(model=fact.name)
        _what_it_is(page, snapshot, fact, known)
        _memory(page, fact, known)
        _traffic(page, fact.demand, queues.get(fact.name), known, now)
        _health(page, fact, known)


def _what_it_is(page: Page, snapshot: Snapshot, fact: ModelFacts, known: str) -> None:
    state = model_state(snapshot, fact)
    for name in STATES:
        page.add(STATE, int(name == state), f'{known},state="{name}"')
    launch, spec = snapshot.applied.launches.get(fact.name), fact.spec
    if launch is not None and spec is not None:
        more = labels(engine=launch.engine, role=launch.role.value, residency=spec.residency.value)
        page.add(INFO, 1, f"{known},{more}")
    page.add(PRIORITY, spec.priority if spec is not None else None, known)


def _memory(page: Page, fact: ModelFacts, known: str) -> None:
    mine, charge = fact.instances, fact.verdict.size if fact.verdict else None
    committed, warm = sum_known(i.committed for i in mine), sum_known(i.warm for i in mine)
    page.add(HELD, sum_known((committed, warm)), known)
    page.add(COMMITTED, committed, known)
    page.add(WARM, warm, known)
    page.add(DEVICE, sum(i.device for i in mine), known)
    page.add(CHARGED, charge, known)
    page.add(RESERVED, kept_free(mine, charge), known)
    page.add(PEAK, (fact.entry.peak or None) if fact.entry else None, known)
    parts = fact.preflight.parts if fact.preflight else None
    if parts is not None:
        for part in PARTS:
            page.add(ESTIMATE, getattr(parts, part), f'{known},part="{part}"')


def _traffic(page: Page, demand: Demand, queue: QueueTraffic | None, known: str, now: float) -> None:
    page.add(ACTIVE, queue.active if queue else 0, known)
    page.add(WAITING, queue.waiting if queue else 0, f'{known},for="load"')
    page.add(WAITING, queue.gated if queue else 0, f'{known},for="place"')
    oldest = queue.oldest if queue else None
    page.add(OLDEST, 0.0 if oldest is None else max(0.0, now - oldest), known)
    page.add(HOLDS, queue.held if queue else 0, known)
    page.add(JOBS, demand.jobs, known)


def _health(page: Page, fact: ModelFacts, known: str) -> None:
    hung = any(i.hung for i in fact.instances)
    page.add(SUSPECT, int(not hung and any(i.suspect for i in fact.instances)), known)
    page.add(HUNG, int(hung), known)
    entry = fact.entry
    page.add(IN_A_ROW, entry.failures if entry is not None else 0, known)
    page.add(LAST_LOAD, entry.load_seconds if entry is not None else None, known)
