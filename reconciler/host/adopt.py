"""After a crash of ours: which of the recorded launches still run, and are provably ours."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from reconciler.boot import boot_id
from reconciler.host.identity import Process, Stat, alive, process_table
from reconciler.host.tree import Mark, members


class Record(Protocol):
    """What a survivor is recognised by (`store.records.LaunchRecord` is one)."""

    @property
    def launch_id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def started(self) -> int | None: ...
    @property
    def port(self) -> int: ...
    @property
    def boot_id(self) -> str: ...
    @property
    def ready(self) -> bool: ...
    @property
    def admitted(self) -> int: ...
    @property
    def created(self) -> float: ...
    @property
    def asleep(self) -> bool: ...
    @property
    def weights(self) -> str: ...
    @property
    def committed_at_ready(self) -> int | None: ...
    @property
    def served(self) -> int: ...
    @property
    def last_used(self) -> float | None: ...
    @property
    def stage(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Survivor:
    """A live process tree of ours. `process` is its root: the recorded one, else the topmost that carries the mark."""

    record: Record
    process: Process
    pids: tuple[int, ...]

    @property
    def root_is_recorded(self) -> bool:
        """The process that was started is the one that lives: only then is it the launch that was asked for."""
        return (self.process.pid, self.process.started) == (self.record.pid, self.record.started)


def survivors(records: Iterable[Record], owner: str) -> tuple[Survivor, ...]:
    """Return what still lives of `records`, sorted by model and launch. Blocking (reads all environments at most once).

    Proof is the pid together with its start time within one boot, or the mark of our owner and that launch in a
    process's environment. A program name or a port is no proof: whoever merely looks like ours is left alone.
    """
    boot = boot_id()
    found = []
    for record in sorted(records, key=lambda r: (r.model, r.launch_id)):
        root = _recorded(record, boot)
        tree = members(root, Mark(owner, record.launch_id), thorough=True)
        if tree:
            top = root if root in tree else topmost(tree, process_table())
            found.append(Survivor(record, top, tuple(p.pid for p in tree)))
    return tuple(found)


def _recorded(record: Record, boot: str) -> Process | None:
    if record.pid is None or record.started is None or not boot or record.boot_id != boot:
        return None
    process = Process(record.pid, record.started)
    return process if alive(process) else None


def topmost(tree: tuple[Process, ...], table: Mapping[int, Stat]) -> Process:
    """Return the member whose parent is no member by this `table`; of several, the one that started first."""
    pids = {process.pid for process in tree}
    tops = [p for p in tree if p.pid in table and table[p.pid].parent not in pids]
    return min(tops or tree, key=lambda p: (p.started, p.pid))
