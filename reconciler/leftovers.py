"""Models that run though no manager does: after `--once`, `--on-exit leave` or a crash. Ending them needs the lock."""

from pathlib import Path

import anyio
import anyio.to_thread

from reconciler.host import Host, StateLock
from reconciler.host.owner import owner_of, read_owner
from reconciler.loop.adopt import GRACE_SECONDS
from reconciler.store import AsyncStore
from reconciler.store.paths import DATABASE


def end_leftovers(directory: Path) -> tuple[str, ...]:
    """End the models that an earlier run has left up (`--once`, a crash) and return what they are called. Blocks.

    What bears our mark and is in no record (the ledger was lost, or could not be written) is ours as well, and would
    hold memory that nobody counts: it is ended, too, and counted behind the names.

    Raises StateLocked while a manager rules them, StateUnwritable, StopError for a process that will not end.
    """
    if read_owner(directory) is None:
        return ()
    with StateLock(directory):
        return anyio.run(_end_leftovers, directory)


async def _end_leftovers(directory: Path) -> tuple[str, ...]:
    host = Host(directory, owner_of(directory))
    store = await AsyncStore.open(directory / DATABASE)
    ended: list[str] = []
    try:
        records = await store.launches()
        for found in await anyio.to_thread.run_sync(host.survivors, records):
            await host.stop(found.process, found.record.launch_id, grace=GRACE_SECONDS)
            ended.append(found.record.model)
        unrecorded = await anyio.to_thread.run_sync(host.unrecorded, [r.launch_id for r in records])
        for launch_id in unrecorded:
            await host.stop(None, launch_id, grace=GRACE_SECONDS)
        for record in records:
            await store.drop_launch(record.launch_id)
    finally:
        await store.close()
        host.close()
    more = (f"{len(unrecorded)} that no record knew",) if unrecorded else ()
    return (*sorted(ended), *more)
