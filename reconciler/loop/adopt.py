"""What an earlier run left behind: adopted if it is healthy and ours for certain, ended otherwise."""

import time
from collections.abc import Callable, Iterable, Mapping

import anyio
import anyio.to_thread
import httpx
import structlog

from reconciler.boot import boot_id
from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.core.types import ModelSpec
from reconciler.engines.base import Readiness
from reconciler.excerpt import excerpt, secrets_of
from reconciler.host import Host, PortOwner, PortProof, Process, StopError, Survivor
from reconciler.host.identity import age
from reconciler.loop import careful
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launch, record_of
from reconciler.loop.rebuilt import may_sleep, records_from
from reconciler.store import AsyncStore

#: Seconds a survivor has to answer one real call, and those of them that all others wait for it.
PROBE_SECONDS = 5.0
FIRST_SECONDS = 0.5
GRACE_SECONDS = 5.0
#: Seconds an adopted model stays at least, however long it was idle: clients that were cut off come back.
BACK_SECONDS = 10.0
#: What the last run was doing with a process, as it is told.
_STAGES = {"stopping": "being stopped", "sleeping": "going to sleep", "waking": "being woken"}

log = structlog.get_logger("reconciler.loop")


async def adopt(
    host: Host,
    store: AsyncStore,
    keeper: Keeper,
    specs: Mapping[str, LaunchSpec],
    http: httpx.AsyncClient,
    now: float,
    journal: Journal,
) -> list[Launch]:
    """Return the launches of earlier runs that are still there, in their order; those that are gone are forgotten.

    They are looked at side by side. One that is silent for a moment is `on_trial`: nobody is sent to it until `tried`
    has said that it answers, and no other model waits for that. What was half done is to be finished: one that was
    being loaded is `broken`, for nobody knows how far it is, and so is one that was being stopped. The plan ends it,
    one at a time as ever, and whatever is deaf to SIGTERM holds up none that serves. One with other settings than
    today's lives on until the plan replaces it. What bears our mark and is in no record is recorded anew if its process
    tells what it is, and judged like the rest; if not, it is ended. Nothing else is touched: it is not ours.
    """
    records = await store.launches()
    unrecorded = await anyio.to_thread.run_sync(host.unrecorded, [record.launch_id for record in records])
    rebuilt = records_from(await anyio.to_thread.run_sync(host.recall, unrecorded))
    survivors = await anyio.to_thread.run_sync(host.survivors, [*records, *rebuilt])
    alive = {s.record.launch_id for s in survivors}
    for record in records:
        if record.launch_id not in alive:
            await keeper.keep(store.drop_launch(record.launch_id))
    launches = [launch_of(survivor, specs, now) for survivor in survivors]
    lost = {record.launch_id for record in rebuilt}
    for launch in launches:
        launch.rebuilt = launch.id in lost
    async with anyio.create_task_group() as tasks:
        for survivor, launch in zip(survivors, launches, strict=True):
            tasks.start_soon(_sort, host, survivor, launch, specs.get(launch.model), http, journal)
    for launch in launches:
        if launch.rebuilt:
            # Not before it is known whether it serves: should we die until then, the next run asks it again.
            await keeper.keep(store.put_launch(record_of(launch, boot_id())))
    await _end_unrecorded(host, sorted(set(unrecorded) - lost), journal)
    return launches


def used_before(launch: Launch, model: ModelSpec | None, now: float) -> float | None:
    """Return when an adopted launch was used last, as its idle time counts; None = not known.

    What an earlier run had left of `idle_ttl` goes on, but nobody is unloaded the moment the manager is back.
    """
    if launch.used_at is None or model is None or model.idle_ttl is None:
        return launch.used_at
    return min(now, max(launch.used_at, now - max(0.0, model.idle_ttl - BACK_SECONDS)))


async def tried(launch: Launch, http: httpx.AsyncClient, journal: Journal) -> bool:
    """Return whether one that is on trial answers after all; if not, it is broken, and the plan ends it."""
    spec = launch.spec
    why = None if spec is None else await _silence(launch, spec, http, PROBE_SECONDS - FIRST_SECONDS)
    launch.on_trial = False
    if launch.exit is not None or launch.stopping:
        return False
    if why is None:
        await journal.adopted(launch, late=True)
        return True
    why = why or f"it has not answered within {PROBE_SECONDS:g} s"
    await journal.leftover(launch.model, (launch.process.pid,), why)
    launch.ready, launch.broken = False, True
    return False


async def _sort(
    host: Host,
    survivor: Survivor,
    launch: Launch,
    today: LaunchSpec | None,
    http: httpx.AsyncClient,
    journal: Journal,
) -> None:
    """Find out whether a survivor serves on; one that does not is broken, and the plan ends it."""
    problem = await _problem(host, survivor, launch, today, http)
    if problem is not None:
        if launch.rebuilt:
            problem = f"the ledger was lost, and it is not known to be ready: {problem}"
        await journal.leftover(launch.model, survivor.pids, problem)
        launch.ready, launch.asleep, launch.broken = False, False, True
    elif not launch.on_trial:
        await journal.adopted(launch)


async def _end_unrecorded(host: Host, launch_ids: Iterable[str], journal: Journal) -> None:
    """End what bears our mark, is in no record and does not tell what it is: the ledger was lost.

    Were it left, it would hold memory that no account shows. All at once: until that is done nobody is served.
    """

    async def end(launch_id: str) -> None:
        await journal.unknown_leftover(launch_id)
        try:
            await host.stop(None, launch_id, grace=GRACE_SECONDS)
        except StopError as error:
            log.error("could not stop", launch=launch_id, pids=error.pids, error=str(error))

    async with anyio.create_task_group() as tasks:
        for launch_id in launch_ids:
            tasks.start_soon(end, launch_id)


def launch_of(survivor: Survivor, specs: Mapping[str, LaunchSpec], now: float) -> Launch:
    """Return a process of an earlier run as a launch; nothing is read of it yet."""
    record = survivor.record
    launch = Launch(
        record.launch_id, record.model, record.digest, None, survivor.process, record.port, started_at=now
    )
    spec = specs.get(record.model)
    if spec is not None and launch_digest(spec) == record.digest:
        launch.spec = spec
    launch.ready, launch.asleep = record.ready and not record.asleep, record.asleep
    launch.loaded_at, launch.admitted, launch.created = now, record.admitted, record.created
    launch.served_before = launch.served_noted = record.served
    launch.used_at = None if record.last_used is None else min(record.last_used, now)
    # The time of day may have been set meanwhile: it is asked only where nothing else tells how old a process is.
    if (old := age(survivor.process)) is not None:
        launch.started_at = now - old
    elif record.created:
        launch.started_at = now - max(0.0, time.time() - record.created)
    launch.weights, launch.committed_at_ready = record.weights, record.committed_at_ready
    return launch


def unfit(
    survivor: Survivor,
    launch: Launch,
    today: LaunchSpec | None,
    proof: Callable[[Process, str, int], PortProof],
) -> str | None:
    """Return why a survivor is not to be kept, as far as that shows without asking it, or None. Blocks.

    `today` is what the manifest says of its model, `proof` is `Host.owns_port`.
    """
    if not survivor.root_is_recorded:
        return "its main process is gone"
    if not launch.ready and not launch.asleep:
        return f"it was {_STAGES.get(survivor.record.stage, 'being loaded')} when the last run ended"
    found = proof(launch.process, launch.id, launch.port)
    if found.owner is not PortOwner.OURS:
        return found.message
    launch.host = found.host
    if launch.rebuilt and today is not None and may_sleep(today, same=launch.spec is not None):
        return "it may sleep, which only the ledger knew"
    return None


async def _problem(
    host: Host, survivor: Survivor, launch: Launch, today: LaunchSpec | None, http: httpx.AsyncClient
) -> str | None:
    """Return why a survivor is not to be kept, or None."""
    why = await anyio.to_thread.run_sync(unfit, survivor, launch, today, host.owns_port)
    if why is not None:
        return why
    if launch.rebuilt and today is not None:
        return await _unproven(launch, today, http)
    if launch.spec is None or launch.asleep:  # whether it can be woken is seen when it is needed
        return None
    why = await _silence(launch, launch.spec, http, FIRST_SECONDS)
    launch.on_trial = why == ""
    return why or None


async def _unproven(launch: Launch, today: LaunchSpec, http: httpx.AsyncClient) -> str | None:
    """Return why one whose record was lost is not to be kept, or None: it answers.

    With other settings than today's it serves until it is replaced, so it is asked as well, in today's way; one that is
    silent then is not waited for.
    """
    why = await _silence(launch, today, http, FIRST_SECONDS)
    launch.on_trial = why == "" and launch.spec is not None
    if launch.on_trial:
        return None
    return f"it has not answered within {FIRST_SECONDS:g} s" if why == "" else why


async def _silence(launch: Launch, spec: LaunchSpec, http: httpx.AsyncClient, seconds: float) -> str | None:
    """Return None if it answers one real call, why it does not, or "" if it has not within so many seconds."""
    with anyio.move_on_after(seconds):
        probe = await careful.get(spec.engine).probe(spec, launch.base_url, http)
        detail = excerpt(probe.detail, secrets_of(spec))
        return None if probe.readiness is Readiness.READY else f"it does not answer: {detail}"
    return ""
