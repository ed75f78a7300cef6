"""Why a launch failed, in one sentence that names the exit, what it means, and the process's own last line."""

from reconciler.core.launch import LaunchSpec
from reconciler.excerpt import excerpt, secrets_of
from reconciler.host import Exit, Logs
from reconciler.loop import careful

TAIL_LINES = 40
#: What stands behind the names of program and level is all that a line says if it is at least this share of it.
_SAYS_ALL = 0.4


def describe(spec: LaunchSpec | None, ended: Exit | None, logs: Logs, model: str, what: str) -> str:
    """Return the sentence, fit to be shown. Blocks: reads the end of the log."""
    tail = logs.tail(model, TAIL_LINES)
    parts = [what if ended is None else f"{what}: {ended}"]
    status = None
    if ended is not None:
        status = -ended.signal if ended.signal is not None else ended.code
    secrets = secrets_of(spec)
    meaning = careful.get(spec.engine).explain("\n".join(tail), status) if spec is not None else None
    if meaning:
        meaning = excerpt(meaning, secrets)
        parts.append(meaning)
    last = next((line.strip() for line in reversed(tail) if line.strip() and not line.startswith("---")), "")
    if (last := excerpt(last, secrets)) and not _told(last, "; ".join(parts)):
        parts.append(f"its last line: {last}")
    return "; ".join(parts)


def _told(line: str, already: str) -> bool:
    """Return whether a sentence says what a line does: all of it, or what stands behind its own `level: program: `.

    >>> _told("worker: entry: no module named x", "exit code 3; no module named x"), _told("a: b", "b it is")
    (True, False)
    """
    behind = [line[i + 2 :].strip() for i in range(len(line)) if line.startswith(": ", i)]
    return line in already or any(len(part) >= _SAYS_ALL * len(line) and part in already for part in behind)
