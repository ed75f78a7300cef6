"""Why a launch failed: its kind, and one sentence that names the exit, what it means, and the last line it wrote."""

import signal
from dataclasses import dataclass
from typing import Final, Protocol

from reconciler.core.crashes import Ending, FailureKind, Starved, kind_of
from reconciler.core.launch import LaunchSpec
from reconciler.core.words import size
from reconciler.excerpt import excerpt, secrets_of
from reconciler.host import Exit, Logs
from reconciler.loop import careful
from reconciler.memory.oom_kills import Kills

TAIL_LINES = 40
#: What stands behind the names of program and level is all that a line says if it is at least this share of it.
_SAYS_ALL = 0.4
#: How a shell, or the client of a container, says that SIGKILL ended what it waited for.
_TOLD_SIGKILL: Final = 137
_MEANS: Final = {
    Starved.YES: "the kernel ended it, for memory had run out",
    Starved.PROBABLY: "the kernel probably ended it: for want of memory it ended some process at that time",
    Starved.NO: "somebody ended it, neither reconcile nor the kernel for want of memory",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a launch failed. `text` is one sentence, fit to be shown."""

    text: str
    kind: FailureKind
    #: It befell what a new process does without.
    afresh: bool = False


class Watch(Protocol):
    """Tells whether the kernel has just ended a process for want of memory."""

    def __call__(self, *, ours: bool) -> Starved:
        """Answer for one of our own control group, or for one that may be anywhere. Blocks."""


def describe(
    spec: LaunchSpec | None,
    ended: Exit | None,
    logs: Logs,
    model: str,
    what: str,
    *,
    watch: Watch | None = None,
    ready: bool = False,
    kind: FailureKind | None = None,
    kills: Kills | None = None,
) -> Failure:
    """Return what happened and why. Blocks: reads the end of the log.

    `ready`: it had been ready. `kind` is given where the caller knows it better than its end tells. `kills` is what
    the kernel did in the control group of its own; None = it has none.
    """
    tail = logs.tail(model, TAIL_LINES)
    parts = [what if ended is None else f"{what}: {ended}"]
    secrets = secrets_of(spec)
    engine = careful.get(spec.engine) if spec is not None else None
    meaning = engine.explain("\n".join(tail), _status(ended)) if engine is not None else None
    starved = _starved(ended, watch, kills)
    if kind is None:
        said = engine.failure_kind("\n".join(tail)) if engine is not None else None
        kind = _kind(ended, said, starved, ready=ready)
        meaning = _MEANS.get(starved, meaning)
    if kills is not None and kills.limit is not None:
        kind = FailureKind.OVER_LIMIT
        meaning = f"killed by its own limits.memory of {size(kills.limit)}: raise it or lower the context"
    if meaning:
        meaning = excerpt(meaning, secrets)
        parts.append(meaning)
    last = next((line.strip() for line in reversed(tail) if line.strip() and not line.startswith("---")), "")
    if (last := excerpt(last, secrets)) and not _told(last, "; ".join(parts)):
        parts.append(f"its last line: {last}")
    return Failure("; ".join(parts), kind)


def _status(ended: Exit | None) -> int | None:
    if ended is None:
        return None
    return -ended.signal if ended.signal is not None else ended.code


def _starved(ended: Exit | None, watch: Watch | None, kills: Kills | None) -> Starved:
    """Return whether the kernel ended it for want of memory: its own control group knows best who was in it."""
    directly = ended is not None and ended.signal == signal.SIGKILL
    if not directly and (ended is None or ended.code != _TOLD_SIGKILL):
        return Starved.UNKNOWN
    if kills is not None and (kills.count or directly):
        return Starved.YES if kills.count else Starved.NO
    return watch(ours=directly) if watch is not None else Starved.UNKNOWN


def _kind(ended: Exit | None, said: FailureKind | None, starved: Starved, *, ready: bool) -> FailureKind:
    code, number = (None, None) if ended is None else (ended.code, ended.signal)
    return kind_of(Ending(code, number, said, ready, starved in (Starved.YES, Starved.PROBABLY)))


def _told(line: str, already: str) -> bool:
    """Return whether a sentence says what a line does: all of it, or what stands behind its own `level: program: `.

    >>> _told("worker: entry: no module named x", "exit code 3; no module named x"), _told("a: b", "b it is")
    (True, False)
    """
    behind = [line[i + 2 :].strip() for i in range(len(line)) if line.startswith(": ", i)]
    return line in already or any(len(part) >= _SAYS_ALL * len(line) and part in already for part in behind)
