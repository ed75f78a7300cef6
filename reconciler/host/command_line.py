"""The command line of a process that runs, as the system tells it."""

import psutil

from reconciler.host.identity import Process, identify


def command_line(process: Process) -> tuple[str, ...] | None:
    """Return a process's words; None if it is gone, or does not tell. Blocking (one small read)."""
    try:
        words = tuple(psutil.Process(process.pid).cmdline())
    except psutil.Error:
        return None
    return words if words and identify(process.pid) == process else None
