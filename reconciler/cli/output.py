"""What every verb writes with: stdout for results, stderr for everything said about them."""

import json
import os
import sys
from typing import Any, Final, TextIO

OK: Final = 0
FAILURE: Final = 1
#: Only with --detailed-exitcode: the plan has steps.
CHANGES: Final = 2
#: A mistake in the command line; not 2, which would read as "there are changes".
USAGE: Final = 64


class CliError(Exception):
    """Ends the program with a message on stderr and an exit code."""

    code = FAILURE
    #: Before the message; empty for one that already says where and what.
    prefix = "error: "


class UsageError(CliError):
    """The command line itself is wrong."""

    code = USAGE


def say(text: str) -> None:
    """Write a result to stdout."""
    sys.stdout.write(text + "\n")


def say_json(document: object) -> None:
    """Write a result to stdout as indented JSON."""
    say(json.dumps(document, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """Write to stderr what is not the result: progress, warnings, errors."""
    sys.stdout.flush()  # keep the order in which a terminal shows the two
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def colour(stream: TextIO | None = None) -> bool:
    """Return whether to colour: a terminal that can, and no NO_COLOR (https://no-color.org)."""
    target: Any = stream or sys.stdout
    return target.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
