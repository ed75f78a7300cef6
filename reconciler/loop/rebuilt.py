"""Records of launches, from what their processes tell: the first of each, and those that were lost with the ledger."""

from collections.abc import Iterable
from dataclasses import replace

from reconciler.boot import boot_id
from reconciler.core.launch import LaunchSpec, Sleep
from reconciler.host.origin import Origin, Recalled
from reconciler.loop import careful
from reconciler.store import LaunchRecord


def first_record(launch_id: str, origin: Origin) -> LaunchRecord:
    """Return the record of a launch of which no process exists yet."""
    return LaunchRecord(
        launch_id,
        origin.model,
        origin.digest,
        None,
        None,
        origin.port,
        boot_id(),
        created=origin.created,
        admitted=origin.admitted,
    )


def records_from(recalled: Iterable[Recalled]) -> list[LaunchRecord]:
    """Return a record for each; all count as ready, which their port and a probe are to prove."""
    return [
        replace(
            first_record(one.launch_id, one.origin),
            pid=one.process.pid,
            started=one.process.started,
            ready=True,
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
