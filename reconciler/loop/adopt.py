"""What an earlier run left behind: adopted if it is healthy and ours for certain, ended otherwise."""

from collections.abc import Mapping

import anyio
import anyio.to_thread
import httpx
import structlog

from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.engines.base import Readiness
from reconciler.excerpt import excerpt, secrets_of
from reconciler.host import Host, PortOwner, StopError, Survivor
from reconciler.loop import careful
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launch
from reconciler.store import AsyncStore

#: Seconds a survivor has to answer one real call.
PROBE_SECONDS = 5.0
GRACE_SECONDS = 5.0

log = structlog.get_logger("reconciler.loop")


async def adopt(
    host: Host,
    store: AsyncStore,
    keeper: Keeper,
    specs: Mapping[str, LaunchSpec],
    http: httpx.AsyncClient,
    now: float,
) -> list[Launch]:
    """Return the launches of earlier runs that live on. The others are ended, and forgotten.

    A half-loaded one is ended: nobody knows how far it is. One with other settings than today's lives on until the
    plan replaces it. Nothing else is touched: what is not recorded is not ours.
    """
    records = await store.launches()
    survivors = await anyio.to_thread.run_sync(host.survivors, records)
    alive = {s.record.launch_id for s in survivors}
    for record in records:
        if record.launch_id not in alive:
            await keeper.keep(store.drop_launch(record.launch_id))
    kept = []
    for survivor in survivors:
        launch = launch_of(survivor, specs, now)
        problem = await _problem(host, survivor, launch, http)
        if problem is None:
            log.info("adopted", model=launch.model, pid=launch.process.pid, port=launch.port)
            kept.append(launch)
            continue
        log.info("ending a leftover", model=launch.model, pids=survivor.pids, reason=problem)
        try:
            await host.stop(survivor.process, launch.id, grace=GRACE_SECONDS)
            await keeper.keep(store.drop_launch(launch.id))
        except StopError as error:
            log.error("could not stop", model=launch.model, pids=error.pids, error=str(error))
            launch.ready, launch.asleep, launch.broken = False, False, True
            kept.append(launch)
    await _end_unrecorded(host, [record.launch_id for record in records])
    return kept


async def _end_unrecorded(host: Host, known: list[str]) -> None:
    """End what bears our mark and is in no record: the ledger was lost, and nobody knows what it is.

    Were it left, it would hold memory that no account shows.
    """
    for launch_id in await anyio.to_thread.run_sync(host.unrecorded, known):
        log.warning("ending a process of ours that no record knows", launch=launch_id)
        try:
            await host.stop(None, launch_id, grace=GRACE_SECONDS)
        except StopError as error:
            log.error("could not stop", launch=launch_id, pids=error.pids, error=str(error))


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
    launch.weights, launch.committed_at_ready = record.weights, record.committed_at_ready
    return launch


async def _problem(host: Host, survivor: Survivor, launch: Launch, http: httpx.AsyncClient) -> str | None:
    """Return why a survivor is not to be kept, or None."""
    if not survivor.root_is_recorded:
        return "its main process is gone"
    if not launch.ready and not launch.asleep:
        return "it was being loaded, or was going to sleep, when the last run ended"
    proof = await anyio.to_thread.run_sync(host.owns_port, launch.process, launch.id, launch.port)
    if proof.owner is not PortOwner.OURS:
        return proof.message
    launch.host = proof.host
    if launch.spec is None or launch.asleep:  # whether it can be woken is seen when it is needed
        return None
    with anyio.move_on_after(PROBE_SECONDS):
        probe = await careful.get(launch.spec.engine).probe(launch.spec, launch.base_url, http)
        detail = excerpt(probe.detail, secrets_of(launch.spec))
        return None if probe.readiness is Readiness.READY else f"it does not answer: {detail}"
    return f"it has not answered within {PROBE_SECONDS:g} s"
