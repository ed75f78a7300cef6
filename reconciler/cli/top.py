"""`reconcile top`: the loop on a live screen."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import CliError, colour, say

if TYPE_CHECKING:
    from reconciler.cli.top_feed import Seen
    from reconciler.render.top_view import View

#: Columns where nothing says how many there are.
_WIDTH: Final = 80
_NO_SCREEN: Final = (
    "a live screen needs a terminal that can move its cursor: `reconcile top --once` prints one picture,"
    " `reconcile events --follow` a line for each thing that happens"
)


def top(
    *,
    once: Annotated[
        bool, Parameter(name="--once", negative=(), show_default=False, help="Print one picture and exit.")
    ] = False,
    state_dir: options.StateDir = None,
) -> int:
    """Show the running loop live: memory, models, action, plan, events.

    q ends it, s sorts, / filters, arrows scroll. It follows the loop over a restart.
    """
    from reconciler.cli.client import find_loop
    from reconciler.cli.top_feed import seen_now
    from reconciler.store.paths import state_dir as resolve

    if not once and not _can_draw():
        raise CliError(_NO_SCREEN)
    directory = resolve(state_dir, create=False)
    first = seen_now(find_loop(directory), time.strftime("%H:%M:%S") if once else "live")
    return _once(first) if once else _live(directory, first)


def _can_draw() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "")


def _once(first: "Seen") -> int:
    from reconciler.render.top_text import top_text

    say(top_text(view_of(first), _columns(), colour=colour(), blocks=_blocks()))
    return 0


def _columns() -> int:
    """Return the width of the terminal, or what COLUMNS says; a file gets as much as a small screen."""
    import shutil

    return shutil.get_terminal_size((_WIDTH, 24)).columns


def _blocks() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def view_of(seen: "Seen") -> "View":
    """Return what is to be shown of what came last."""
    from reconciler.render.top_view import View

    now = time.monotonic()
    link, stale = seen.link, seen.lost_at is not None
    if seen.lost_at is not None:
        link = f"{link}, {now - seen.lost_at:.0f} s ago; waiting for it"
    # The clock of a loop that is gone has stopped.
    age = 0.0 if stale else max(0.0, now - seen.arrived)
    return View(seen.status, seen.plan, seen.events, age, link, stale)


def _live(directory: Path, first: "Seen") -> int:
    from reconciler.cli.top_screen import run

    return run(directory, first, colour=colour(), blocks=_blocks())
