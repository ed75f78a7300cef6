"""What the system lets our processes have: locked memory and open files."""

import resource
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from reconciler.core.launch import LoadMode
from reconciler.core.types import Preflight
from reconciler.core.words import size
from reconciler.doctor.finding import Finding, note, ok, warning
from reconciler.host import files
from reconciler.manifest.applied import Applied

#: Returns the soft limit of a resource; None = unlimited.
ReadLimit = Callable[[int], int | None]
#: Files the manager itself holds: ledger, logs, sockets, event loop.
_OWN_FILES: Final = 64
#: A request needs a connection from its client and one to its engine.
_FILES_A_REQUEST: Final = 2


def soft_limit(kind: int) -> int | None:
    """Return the soft limit that the manager has, started as we were; None = unlimited."""
    if kind == resource.RLIMIT_NOFILE:
        return files.attainable()  # it raises this one itself
    soft, hard = resource.getrlimit(kind)
    if kind == resource.RLIMIT_MEMLOCK:
        soft = hard  # and this one for each model that locks
    return None if soft == resource.RLIM_INFINITY else soft


def check_locked(
    applied: Applied | None, preflights: Mapping[str, Preflight], limit: ReadLimit, *, privileged: bool
) -> Iterator[Finding]:
    """Yield whether the models that lock their weights may lock so much. `privileged` = no limit binds us."""
    locking = (
        [name for name, spec in sorted(applied.launches.items()) if spec.load_mode is LoadMode.MLOCK]
        if applied
        else []
    )
    allowed = None if privileged else limit(resource.RLIMIT_MEMLOCK)
    if not locking:
        yield ok("locked memory", f"no model wants it; {_limit_text(allowed)} is allowed")
        return
    for name in locking:
        found = preflights.get(name)
        weights = found.parts.weights if found is not None and found.parts is not None else None
        if allowed is None or (weights is not None and weights <= allowed):
            yield ok("locked memory", f"{name} may lock its weights")
        else:
            yield warning(
                "locked memory",
                f"{name} locks its weights ({size(weights)}), and {size(allowed)} may be locked",
                "raise the limit: LimitMEMLOCK=infinity in the unit, or memlock in /etc/security/limits.conf",
            )


def check_files(applied: Applied | None, limit: ReadLimit) -> Iterator[Finding]:
    """Yield whether as many requests as may wait and be served find files to be opened for them."""
    allowed = limit(resource.RLIMIT_NOFILE)
    requests = 0
    if applied is not None:
        requests = sum(limits.queue.max for limits in applied.limits.values())
        requests += sum(spec.slots for spec in applied.launches.values())
    need = _OWN_FILES + _FILES_A_REQUEST * requests
    if allowed is None or allowed >= need:
        yield ok(
            "open files", f"{'any number' if allowed is None else allowed} allowed, {need} needed at most"
        )
    else:
        yield note(
            "open files",
            f"{allowed} allowed; if all queues were full, {need} would be needed",
            "raise the limit (ulimit -n, LimitNOFILE), or lower queue.max",
        )


def _limit_text(allowed: int | None) -> str:
    return "any amount" if allowed is None else size(allowed)
