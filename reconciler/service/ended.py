"""What systemd runs after the loop has ended (`python -m reconciler.service.ended STATE_DIR`).

Writes down how it ended, for `reconcile service status`. Where it had to be killed because its end took too long it
ends the models, which nobody else would: after a crash they are left for the next start to adopt.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: In the state directory.
EXIT_FILE: Final = "service-exit.json"
_WORDS: Final = {
    "success": "it was asked to stop",
    "watchdog": "its loop hung and was ended by the watchdog",
    "timeout": "it took too long to start or to stop and was killed",
    "oom-kill": "the kernel ended it for want of memory",
}


def main(arguments: list[str]) -> int:
    """Write down the end of the run and return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m reconciler.service.ended STATE_DIR\n")
        return 64
    directory = Path(arguments[0])
    if not directory.is_dir():  # it ended before it made one: there is nothing to keep, and no model
        return 0
    note(directory, os.environ, time.time())
    if os.environ.get("SERVICE_RESULT") == "timeout":
        return _sweep(directory)
    return 0


def note(directory: Path, environ: Mapping[str, str], now: float) -> None:
    """Keep how it ended, from what systemd says in the environment; `now` is in seconds since 1970."""
    from reconciler.host.owner import write_private

    names = {"result": "SERVICE_RESULT", "code": "EXIT_CODE", "status": "EXIT_STATUS"}
    said = {key: environ.get(name, "") for key, name in names.items()}
    write_private(directory / EXIT_FILE, json.dumps({**said, "at": now}))


def last_exit(directory: Path) -> tuple[str, float] | None:
    """Return how the last run ended, in words, and when (seconds since 1970); None = not known. Blocking."""
    try:
        kept = json.loads((directory / EXIT_FILE).read_text(encoding="utf-8"))
        result, code, status, at = kept["result"], kept["code"], str(kept["status"]), float(kept["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _WORDS.get(result) or _in_words(code, status), at


def _in_words(code: str, status: str) -> str:
    """Return an exit as systemd names it (`exited` and a number, `killed` or `dumped` and a signal) in words."""
    if code == "exited":
        return f"exit status {status}"
    return f"killed by SIG{status.removeprefix('SIG')}" if status else "unknown"


def _sweep(directory: Path) -> int:
    from reconciler import leftovers
    from reconciler.host import HostError

    try:
        ended = leftovers.end_leftovers(directory)
    except HostError as error:
        sys.stderr.write(f"error: models are left running: {error}\n")
        return 1
    if ended:
        sys.stderr.write(f"ended the models that were left running: {', '.join(ended)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
