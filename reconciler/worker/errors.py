"""What goes wrong, and how a client is told."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from typing import Any

#: What the last line of a log begins with, by which `reconciler/engines/python.py` knows it: a fault of the entry
#: itself is a whole sentence, anything that the user's own code raised is named after it.
ENTRY_LINE = "worker: entry: "
FAILED_LINE = "worker: failed: "
#: What the first line of a log begins with: an interpreter that is none never writes it.
LOADS_LINE = "worker: loads "


#: What follows the traceback of a call that failed: whatever ends the process later, it was not that.
GOES_ON_LINE = "worker: that call failed, the worker goes on"
#: Characters of what an exception says of itself, and of a traceback, at most.
_LONGEST_NAME = 2000
_LONGEST_TRACE = 40_000


def say(text: str) -> None:
    """Write one line to the log. A log that cannot be written keeps nobody from being answered."""
    with suppress(OSError, ValueError, AttributeError):
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
    text = " ".join(text_of(error).split())
    if len(text) > _LONGEST_NAME:
        text = f"{text[:_LONGEST_NAME]} ... ({len(text)} characters)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """Return what an exception says. Its `__str__` is the user's code, and may fail as any other."""
    try:
        return str(error)
    except BaseException as failure:  # whatever it is, what happened first is what has to be told
        return f"(its text cannot be had: {type(failure).__name__})"


def trace_of(error: BaseException) -> str:
    """Return the traceback for the log; of a very long one the beginning and the end."""
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
    except BaseException as failure:  # it asks the exception for more than its text
        text = f"{name_of(error)}\n(its traceback cannot be had: {type(failure).__name__})"
    if len(text) <= _LONGEST_TRACE:
        return text
    half = _LONGEST_TRACE // 2
    return f"{text[:half]}\n... ({len(text)} characters)\n{text[-half:]}"


def told(error: BaseException) -> BaseException:
    """Return what a client is told of an exception, and write its traceback to the log unless it is ours."""
    if isinstance(error, (Refused, Failed)):
        return error
    say(f"{trace_of(error)}\n{GOES_ON_LINE}")
    return Failed(name_of(error))


def body_of(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON that tell a client of an error, in OpenAI's shape."""
    if isinstance(error, Refused):
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        return error.status, _shape(str(error), kind, error.param)
    return 500, _shape(str(error) if isinstance(error, Failed) else name_of(error), "server_error", None)


def _shape(message: str, kind: str, param: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}
