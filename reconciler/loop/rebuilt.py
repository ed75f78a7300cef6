"""Records that were lost with the ledger, made again from what the processes tell."""

from collections.abc import Iterable

from reconciler.boot import boot_id
from reconciler.core.launch import LaunchSpec, Sleep
from reconciler.host.origin import Recalled
from reconciler.loop import careful
from reconciler.store import LaunchRecord


def records_from(recalled: Iterable[Recalled]) -> list[LaunchRecord]:
    """Return a record for each; all count as ready, which their port and a probe are to prove."""
    return [
        LaunchRecord(
            one.launch_id,
            one.origin.model,
            one.origin.digest,
            one.process.pid,
            one.process.started,
            one.origin.port,
            boot_id(),
            ready=True,
            created=one.origin.created,
            admitted=one.origin.admitted,
        )
        for one in recalled
    ]


def may_sleep(spec: LaunchSpec, *, same: bool) -> bool:
    """Return whether a process may answer a probe although it sleeps, and would serve nobody.

    `same`: it was started with exactly these settings. One that wakes with the next request serves.
    """
    if same and spec.sleep is Sleep.OFF:
        return False
    sleeper = careful.get(spec.engine).sleeper(spec)
    return sleeper is not None and not sleeper.wakes_later
