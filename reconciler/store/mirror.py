"""What must outlive the file: kept in memory as well, written when it can be, and again into a file begun anew."""

import sqlite3
from collections import deque
from typing import Final, NamedTuple

from reconciler.core.types import LedgerEntry
from reconciler.store.ledger import Store
from reconciler.store.records import LaunchRecord

#: Events kept while they cannot be written; the oldest are lost.
MOST_EVENTS: Final = 5000


class Event(NamedTuple):
    """One line of history that waits to be written; the arguments of `Store.add_event`."""

    at_wall: float
    kind: str
    model: str | None
    reason: str
    message: str


class Mirror:
    """The newest of what was asked to be written. Belongs to whoever writes, one call at a time."""

    def __init__(self, store: Store) -> None:
        """Begin with what the file says. Raises sqlite3.Error."""
        self._launches = {record.launch_id: record for record in store.launches()}
        self._entries = {(entry.model, entry.digest): entry for entry in store.entries()}
        self._generation: tuple[int, str] | None = None
        #: Changes of the manifest were counted that the file does not know of.
        self._counted = False
        #: Launches that changed and are not in the file as they are, in that order.
        self._unwritten: dict[str, None] = {}
        #: The file may hold nothing of all this.
        self._anew = False
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)

    def launch(self, launch_id: str, record: LaunchRecord | None) -> None:
        """Note how a launch is now; None = it is over."""
        if record is None:
            self._launches.pop(launch_id, None)
        else:
            self._launches[launch_id] = record
        self._unwritten[launch_id] = None

    def entry(self, entry: LedgerEntry) -> None:
        """Note what is known of a launch's settings now. Whoever asks for it to be written tries again itself."""
        self._entries[entry.model, entry.digest] = entry

    def generation(self, number: int, digest: str) -> None:
        """Note the manifest's generation."""
        self._generation = number, digest

    def count(self, digest: str) -> None:
        """Count a change of the manifest that could not be written: no number may stand for two manifests."""
        if self._generation is not None and self._generation[1] != digest:
            self._generation, self._counted = (self._generation[0] + 1, digest), True

    def event(self, event: Event) -> None:
        """Keep an event that could not be written."""
        self._events.append(event)

    def lost(self) -> None:
        """Note that the file was begun anew: all of it is to be written again."""
        self._anew = True

    def write(self, store: Store) -> None:
        """Write what waits, in the order in which it came. Raises sqlite3.Error; the rest then goes on waiting."""
        if self._anew:
            for _, entry in sorted(self._entries.items()):
                store.put_entry(entry)
            self._counted = self._generation is not None
            self._unwritten |= dict.fromkeys(self._launches)
            self._anew = False
        if self._counted and self._generation is not None:
            store.set_generation(*self._generation)
            self._counted = False
        for launch_id in list(self._unwritten):
            record = self._launches.get(launch_id)
            try:
                if record is None:
                    store.drop_launch(launch_id)
                else:
                    store.put_launch(record)
            except sqlite3.IntegrityError:  # a fault of the program: it would stand in the way of all others
                del self._launches[launch_id], self._unwritten[launch_id]
                raise
            del self._unwritten[launch_id]
        while self._events:
            store.add_event(*self._events[0])
            self._events.popleft()
