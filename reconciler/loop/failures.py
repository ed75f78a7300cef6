"""Why a launch failed, in one sentence that names the exit, what it means, and the process's own last line."""

from reconciler.core.launch import LaunchSpec
from reconciler.engines import registry
from reconciler.excerpt import excerpt, secrets_of
from reconciler.host import Exit, Logs

TAIL_LINES = 40


def describe(spec: LaunchSpec | None, ended: Exit | None, logs: Logs, model: str, what: str) -> str:
    """Return the sentence, fit to be shown. Blocks: reads the end of the log."""
    tail = logs.tail(model, TAIL_LINES)
    parts = [what if ended is None else f"{what}: {ended}"]
    status = None
    if ended is not None:
        status = -ended.signal if ended.signal is not None else ended.code
    secrets = secrets_of(spec)
    meaning = registry.get(spec.engine).explain("\n".join(tail), status) if spec is not None else None
    if meaning:
        meaning = excerpt(meaning, secrets)
        parts.append(meaning)
    last = next((line.strip() for line in reversed(tail) if line.strip() and not line.startswith("---")), "")
    if (last := excerpt(last, secrets)) and last not in (meaning or ""):
        parts.append(f"its last line: {last}")
    return "; ".join(parts)
