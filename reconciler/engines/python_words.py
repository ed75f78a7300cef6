"""What the last words of a Python worker mean; `reconciler/worker/errors.py` writes them."""

from typing import Final

from reconciler.core.crashes import FailureKind
from reconciler.engines import failures
from reconciler.engines.exits import explain_exit

_OURS: Final = "worker: "
_ENTRY: Final = "worker: entry: "
_FAILED: Final = "worker: failed: "
#: Follows the traceback of a call that failed: the worker did not end of it.
_GOES_ON: Final = "worker: that call failed, the worker goes on"
#: More lines than that were not written by an interpreter that could not even begin.
_FEW_LINES: Final = 20


def explain(log_tail: str, exit_status: int | None) -> str | None:
    """Return what the worker said last of why it could not serve, or else what is known of any program."""
    lines = log_tail.splitlines()
    if said := _last(lines, _ENTRY):
        return said
    return failures.explain(_since(log_tail), None) or _last(lines, _FAILED) or _of_exit(lines, exit_status)


def kind(log_tail: str) -> FailureKind | None:
    """Return what kind of failure the log tells of; what the user's class cannot begin with may be anything."""
    if _last(log_tail.splitlines(), _ENTRY):
        return None
    return failures.kind(_since(log_tail))


def _since(log_tail: str) -> str:
    """Return what was logged after the last call that failed and did not end the worker."""
    return log_tail[log_tail.rfind(_GOES_ON) + len(_GOES_ON) :] if _GOES_ON in log_tail else log_tail


def _last(lines: list[str], start: str) -> str | None:
    return next((line[len(start) :] for line in reversed(lines) if line.startswith(start)), None)


def _of_exit(lines: list[str], status: int | None) -> str | None:
    began = len(lines) > _FEW_LINES or any(line.startswith(_OURS) for line in lines)
    if status is not None and status >= 0 and not began:
        last = next((f" It said: {line.strip()}" for line in reversed(lines) if line.strip()), "")
        return f"its interpreter ended with status {status} before the worker began, is it Python 3.9 or newer?{last}"
    if status == 0:
        return "its class ended the process with status 0 (os._exit), or something it calls did"
    return explain_exit(status)
