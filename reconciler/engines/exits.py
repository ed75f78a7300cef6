"""What the exit status of a server means when its log says nothing."""

from collections.abc import Mapping
from typing import Final

_BY_STATUS: Final[Mapping[int, str]] = {
    0: "it ended by itself with status 0: a server must stay in the foreground (use `exec` in a wrapper)",
    126: "the program could not be executed (126)",
    127: "the program was not found (127)",
}
_BY_SIGNAL: Final[Mapping[int, str]] = {
    4: "the binary was built for another CPU (illegal instruction)",
    6: "it aborted; its own last lines say why",
    7: "it read beyond a file or memory that is gone (bus error); were the weights replaced while in use?",
    9: "it was killed (KILL), possibly because the machine ran out of memory",
    11: "it crashed (segmentation fault)",
}


def explain_exit(exit_status: int | None) -> str | None:
    """Return what an exit status means for any program, or None if it means nothing by itself.

    A negative status is the signal that ended it, as `subprocess` reports it; 128 + n is how a shell says so.
    """
    if exit_status is None:
        return None
    signal_number = -exit_status if exit_status < 0 else exit_status - 128
    return _BY_STATUS.get(exit_status) or _BY_SIGNAL.get(signal_number)
