"""Which processes belong to one launch: children, members of its session, and those that carry its mark."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.host.identity import Process, Stat, process_table, read_environ

#: Variables set in everything we start. The launch id is unique, so that what daemonised is still found by it.
OWNER_VARIABLE: Final = "RECONCILER_OWNER"
LAUNCH_VARIABLE: Final = "RECONCILER_LAUNCH"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a process of one launch carries in its environment."""

    owner: str
    launch_id: str

    def variables(self) -> dict[str, str]:
        """Return the mark as environment variables."""
        return {OWNER_VARIABLE: self.owner, LAUNCH_VARIABLE: self.launch_id}

    def on(self, pid: int) -> bool:
        """Return whether `pid` runs as our user and was started under this mark. Blocking (one small read)."""
        environ = read_environ(pid)
        return all(f"{name}={value}".encode() in environ for name, value in self.variables().items())


def members(
    process: Process | None, mark: Mark, *, thorough: bool = False, table: Mapping[int, Stat] | None = None
) -> tuple[Process, ...]:
    """Return the live processes of a launch, sorted by pid. Blocking (one small read a process of the machine).

    `process` is the one that was started (None = not known). With `thorough` the environment of every process
    of our user is read too, which alone finds what left both the family and the session. A `table` read before
    serves several launches.
    """
    table = process_table() if table is None else table
    found = _family(process, table, mark) if process else set()
    if thorough:
        found |= {pid for pid in table if pid not in found and mark.on(pid)}
    found = _with_descendants(found, table) - lineage(table)
    return tuple(Process(pid, table[pid].started) for pid in sorted(found) if table[pid].alive)


def launches_of(owner: str) -> tuple[str, ...]:
    """Return the ids of all launches of `owner` of which something lives, sorted. Blocking (reads all environments).

    What is recorded nowhere is found by this alone: the mark says whose it is.
    """
    table = process_table()
    mine, launch = f"{OWNER_VARIABLE}={owner}".encode(), f"{LAUNCH_VARIABLE}=".encode()
    found = set()
    for pid in sorted(table.keys() - lineage(table)):
        environ = read_environ(pid)
        if mine in environ and table[pid].alive:
            found |= {
                word.removeprefix(launch).decode("ascii", "replace")
                for word in environ
                if word.startswith(launch)
            }
    return tuple(sorted(found))


def lineage(table: Mapping[int, Stat]) -> set[int]:
    """Return ourselves and those above us: nothing of ours to stop, whatever mark they may carry."""
    above: set[int] = set()
    pid = os.getpid()
    while pid in table and pid not in above:
        above.add(pid)
        pid = table[pid].parent
    return above


def _family(process: Process, table: Mapping[int, Stat], mark: Mark) -> set[int]:
    leader = table.get(process.pid)
    if leader is not None and leader.started != process.started:
        return set()  # the pid belongs to a stranger by now, and so does the session of that number
    session = {pid for pid, stat in table.items() if stat.session == process.pid and pid != process.pid}
    if leader is not None:
        return session | {process.pid}
    # With the leader gone a session number alone proves too little: a stranger may have had it in between.
    return {pid for pid in session if mark.on(pid)}


def _with_descendants(roots: set[int], table: Mapping[int, Stat]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, stat in table.items():
        children.setdefault(stat.parent, []).append(pid)
    found, open_ends = set(roots), list(roots)
    while open_ends:
        parent = open_ends.pop()
        for child in children.get(parent, ()):
            # A child that is older than its parent is a sign of a reused pid between two reads of the table.
            if child not in found and table[child].started >= table[parent].started:
                found.add(child)
                open_ends.append(child)
    return found
