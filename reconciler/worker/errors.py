"""What goes wrong, and how a client is told."""

from __future__ import annotations

import sys
from typing import Any

#: What the last line of a log begins with, by which `reconciler/engines/python.py` knows it: a fault of the entry
#: itself is a whole sentence, anything that the user's own code raised is named after it.
ENTRY_LINE = "worker: entry: "
FAILED_LINE = "worker: failed: "


def say(text: str) -> None:
    """Write one line to the log."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


#: The status that stands for a client who has left: nothing is sent.
GONE = 499


class EntryError(Exception):
    """The class cannot be served; the message is a sentence for people."""


class Refused(Exception):
    """A request that is not done; `status` is the HTTP status, the message is for the client."""

    def __init__(self, message: str, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


class Failed(Exception):
    """The user's code raised something; the message is its type and text. The traceback is in the log already."""


def name_of(error: BaseException) -> str:
    """Return an exception as one line: its type, and what it says.

    >>> name_of(ValueError("too long")), name_of(KeyError())
    ('ValueError: too long', 'KeyError')
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def body_of(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON that tell a client of an error, in OpenAI's shape."""
    if isinstance(error, Refused):
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        return error.status, _shape(str(error), kind, error.param)
    return 500, _shape(str(error) if isinstance(error, Failed) else name_of(error), "server_error", None)


def _shape(message: str, kind: str, param: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}
