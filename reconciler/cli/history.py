"""`reconcile history [MODEL]`: what became of the models, and what that cost."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.completing import models
from reconciler.cli.output import UsageError, colour, note, say, say_json

#: Seconds it reaches back.
DEFAULT_SECONDS: Final = 7 * 86400.0
#: An export reaches back to the first request that is kept.
EVER: Final = 100 * 365 * 86400.0


def history(
    model: Annotated[
        str | None,
        Parameter(
            completer=models, help="Name of a model, or an alias while a loop runs [default: all in a table]."
        ),
    ] = None,
    /,
    *,
    since: options.Since = None,
    export: Annotated[
        Path | None,
        Parameter(
            name="--export",
            metavar="FILE.csv",
            help="Write the single requests that are kept as a trace for `reconcile simulate`.",
        ),
    ] = None,
    force: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help="With --export: write over a file that is there already."
        ),
    ] = False,
    json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Show what became of the models, and what it cost those who waited.

    Loads and what they took, evictions and whether the model was wanted again at once, loads in advance and how many of
    them were used, requests by the hour of the day and how many came while their model was not loaded. Of the last 7
    days, or --since; with a running loop or without one.
    """
    from reconciler.cli.past import remembered
    from reconciler.cli.since import since_time
    from reconciler.store.paths import state_dir as resolve

    if force and export is None:
        raise UsageError("--force works with --export only")
    if json and export is not None:
        raise UsageError("--export writes a CSV file: leave --json out")
    begin = since_time(since, DEFAULT_SECONDS if export is None else EVER)
    with remembered(resolve(state_dir, create=False)) as past:
        if export is not None:
            from reconciler.cli.history_export import export_requests

            export_requests(past.requests(model, begin), export, force=force)
            return 0
        document = past.history(model, begin, time.time())
    if json:
        say_json(document)
    elif document["models"]:
        say(_text(document, one=model is not None))
    else:
        note(_nothing(model, since is not None))
    return 0


def _text(document: dict[str, Any], *, one: bool) -> str:
    from reconciler.render.history_model_text import history_model_text
    from reconciler.render.history_text import history_text

    if one:
        return history_model_text(document, colour=colour(), blocks=_blocks())
    return history_text(document, colour=colour())


def _nothing(model: str | None, since: bool) -> str:
    of = f" of {model}" if model is not None else ""
    if since:
        return f"there is no history{of} since then: ask for more, like --since 35d"
    return (
        f"there is no history{of} of the last 7 days: it is written while a loop runs and models are asked for;"
        " ask for more with --since 35d"
    )


def _blocks() -> bool:
    """Return whether the output is a terminal that can show block characters."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return sys.stdout.isatty() and encoding == "utf8"
