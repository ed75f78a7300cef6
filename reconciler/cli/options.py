"""Parameters that several verbs share, described once."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from reconciler.cli.completing import models
from reconciler.cli.output import UsageError

StateDir = Annotated[
    Path | None,
    Parameter(
        name="--state-dir",
        metavar="DIR",
        help="Where the loop keeps its state [default: $RECONCILE_STATE_DIR, else the user's].",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative=(), show_default=False, help="Print JSON.")]
Model = Annotated[str, Parameter(help="Name or alias of a model.", completer=models)]
Rev = Annotated[
    str | None,
    Parameter(
        name="--rev", metavar="REV", help="Read the manifest from this git revision, not from the files."
    ),
]
Machine = Annotated[
    Path | None,
    Parameter(
        name="--machine",
        metavar="FILE",
        help="Plan for the machine this file describes, not for this one.",
    ),
]
Since = Annotated[
    str | None,
    Parameter(
        name="--since",
        metavar="WHEN",
        help="How long ago, like 90m or 7d, or a local time, like 2026-11-29T08:30.",
    ),
]
NoWait = Annotated[
    bool,
    Parameter(name="--no-wait", negative=(), show_default=False, help="Ask and return at once."),
]
Timeout = Annotated[
    float,
    Parameter(
        name="--timeout",
        metavar="SECONDS",
        show_default="{:g}".format,
        help="Seconds to wait before giving up.",
    ),
]


def require_positive(value: float, name: str) -> None:
    """Raise UsageError unless `value` is above zero."""
    if not value > 0:
        raise UsageError(f"{name} must be above zero, not {value:g}")
