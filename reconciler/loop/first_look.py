"""The world as a manager would see it at its first look, without becoming one: no lock, no file, no process of ours."""

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import anyio

from reconciler.boot import boot_id
from reconciler.core import book as ledger_book
from reconciler.core import safe_mode
from reconciler.core.types import LedgerEntry, World
from reconciler.host import Host, Ports
from reconciler.host.adopt import survivors
from reconciler.host.ask import run_command
from reconciler.host.owner import read_owner
from reconciler.leases import Endpoint, LeaseBook
from reconciler.loop.adopt import launch_of, unfit, used_before
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.observe import Observer
from reconciler.loop.rebuilt import records_from
from reconciler.loop.resumed import resumed
from reconciler.manifest import Applied
from reconciler.memory.machine import open_machine
from reconciler.store import LaunchRecord, peek
from reconciler.store.paths import DATABASE


@dataclass(frozen=True, slots=True)
class _Past:
    """What the ledger of a state directory tells."""

    records: tuple[LaunchRecord, ...]
    entries: Mapping[tuple[str, str], LedgerEntry]
    #: Why only pinned models are loaded; "" = all are.
    unsafe: str
    #: Models that were evicted by hand, and stay out.
    dismissed: tuple[str, ...]


def first_look(applied: Applied, directory: Path) -> World:
    """Return the world as the next manager of the state directory would see it. Blocks. Raises as `store.peek`.

    Processes that live though no record knows them are among what it shows. That one answers is taken for granted: to
    ask it is work for it.
    """
    now = time.monotonic()
    past, owner = _past(directory, now), read_owner(directory)
    launches, book = Launches(), LeaseBook(lambda: None)
    for model in past.dismissed:
        book.dismiss(model)
    with closing(Host(directory, owner or "")) as host:
        for launch in _survivors(host, past.records, applied, now) if owner is not None else ():
            entry = past.entries.get((launch.model, launch.digest))
            if entry is not None:
                launch.said, launch.build = entry.said, entry.build
            launches.add(launch)
            if launch.ready and launch.model in applied.launches and launches.serving(launch.model) is None:
                wanted = next((m for m in applied.manifest.models if m.name == launch.model), None)
                launches.serve(launch)
                book.open(Endpoint(launch.model, launch.base_url), now, used_before(launch, wanted, now))
        observer = Observer(host, open_machine(run_command), launches, book)
        seen = anyio.run(observer.look, applied.manifest, applied.launches, Ports(*applied.ports), now)
    entries = tuple(entry for _, entry in sorted(past.entries.items()))
    return World(safe_mode.restrained(observer.used(seen), applied.manifest, past.unsafe), entries)


def _past(directory: Path, now: float) -> _Past:
    with peek(directory / DATABASE) as store:
        known = (ledger_book.resumed(entry, now) for entry in store.entries())
        return _Past(
            tuple(store.launches()),
            {(entry.model, entry.digest): entry for entry in known},
            safe_mode.why(store.runs(), boot_id()),
            resumed(store, store.last_evictions(), time.time(), now).dismissed,
        )


def _survivors(
    host: Host, records: Iterable[LaunchRecord], applied: Applied, now: float
) -> tuple[Launch, ...]:
    """Return the launches that a manager would take over, and those that its plan would end first."""
    records = tuple(records)
    rebuilt = records_from(host.recall(host.unrecorded([record.launch_id for record in records])))
    lost = {record.launch_id for record in rebuilt}
    found = []
    # Not `Host.survivors`: that also removes what is left of those that ended.
    for survivor in survivors([*records, *rebuilt], host.owner):
        launch = launch_of(survivor, applied.launches, now)
        launch.rebuilt = launch.id in lost
        if unfit(survivor, launch, applied.launches.get(launch.model), host.owns_port) is not None:
            launch.ready, launch.asleep, launch.broken = False, False, True
        found.append(launch)
    return tuple(found)
