"""Why a launch failed: its kind, and one sentence that names the exit, what it means, and the last line it wrote."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from reconciler.core.crashes import Ending, FailureKind, kind_of
from reconciler.core.launch import LaunchSpec
from reconciler.excerpt import excerpt, secrets_of
from reconciler.host import Exit, Logs
from reconciler.loop import careful

TAIL_LINES = 40
#: What stands behind the names of program and level is all that a line says if it is at least this share of it.
_SAYS_ALL = 0.4
#: How SIGKILL is reported: by the host, and by a shell that waited for the process.
_BY_SIGKILL: Final = (-9, 137)
_SIGKILL_MEANS: Final = {
    FailureKind.KILLED_BY_KERNEL: "the kernel ended it, for memory had run out",
    FailureKind.KILLED: "somebody ended it, neither reconcile nor the kernel for want of memory",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a launch failed. `text` is one sentence, fit to be shown."""

    text: str
    kind: FailureKind


#: Tells whether the kernel has just ended a process for want of memory; None = it does not say. Blocks.
Starved = Callable[[], bool | None]


def describe(
    spec: LaunchSpec | None,
    ended: Exit | None,
    logs: Logs,
    model: str,
    what: str,
    *,
    starved: Starved = lambda: None,
    ready: bool = False,
    kind: FailureKind | None = None,
    limit: str = "",
) -> Failure:
    """Return what happened and why. Blocks: reads the end of the log.

    `ready`: it had been ready. `kind` is given where the caller knows it better than its end tells. `limit` says that
    the kernel ended it for a limit of its own, in a sentence.
    """
    tail = logs.tail(model, TAIL_LINES)
    parts = [what if ended is None else f"{what}: {ended}"]
    status = None
    if ended is not None:
        status = -ended.signal if ended.signal is not None else ended.code
    secrets = secrets_of(spec)
    engine = careful.get(spec.engine) if spec is not None else None
    meaning = engine.explain("\n".join(tail), status) if engine is not None else None
    said = engine.failure_kind("\n".join(tail)) if engine is not None else None
    short = starved() if status in _BY_SIGKILL else False
    if kind is None:
        kind = _kind(ended, said, starved=bool(short), ready=ready)
    if status in _BY_SIGKILL and short is not None:
        meaning = _SIGKILL_MEANS.get(kind, meaning)
    if limit:
        kind, meaning = FailureKind.OUT_OF_MEMORY, limit
    if meaning:
        meaning = excerpt(meaning, secrets)
        parts.append(meaning)
    last = next((line.strip() for line in reversed(tail) if line.strip() and not line.startswith("---")), "")
    if (last := excerpt(last, secrets)) and not _told(last, "; ".join(parts)):
        parts.append(f"its last line: {last}")
    return Failure("; ".join(parts), kind)


def _kind(ended: Exit | None, said: FailureKind | None, *, starved: bool, ready: bool) -> FailureKind:
    code, number = (None, None) if ended is None else (ended.code, ended.signal)
    return kind_of(Ending(code, number, said, ready, starved))


def _told(line: str, already: str) -> bool:
    """Return whether a sentence says what a line does: all of it, or what stands behind its own `level: program: `.

    >>> _told("worker: entry: no module named x", "exit code 3; no module named x"), _told("a: b", "b it is")
    (True, False)
    """
    behind = [line[i + 2 :].strip() for i in range(len(line)) if line.startswith(": ", i)]
    return line in already or any(len(part) >= _SAYS_ALL * len(line) and part in already for part in behind)
