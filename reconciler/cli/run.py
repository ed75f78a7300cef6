"""`reconcile [PATH]`: run the loop, converge once, or show the plan."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.names import near
from reconciler.cli.output import UsageError
from reconciler.render import one_line

VERBS = ("validate", "schema", "status", "explain", "logs", "load", "evict", "stop")


def run(
    path: Annotated[
        Path, Parameter(help="Manifest: a YAML file, or a directory whose *.yaml files are merged.")
    ] = Path("manifests"),
    /,
    *,
    dry_run: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Print the plan and exit; touch nothing.")
    ] = False,
    once: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help="Act until all is as it should be, leave it so, exit."
        ),
    ] = False,
    rev: options.Rev = None,
    json: options.Json = False,
    detailed_exitcode: Annotated[
        bool, Parameter(negative=(), show_default=False, help="With --dry-run: exit 2 if there are changes.")
    ] = False,
    listen: Annotated[
        str | None,
        Parameter(
            metavar="HOST:PORT", help="Where clients connect, in place of the manifest's gateway.listen."
        ),
    ] = None,
    state_dir: options.StateDir = None,
) -> int:
    """Keep the AI model servers of this machine the way a YAML manifest says, within its memory.

    Without a command, run the loop and the gateway in the foreground until Ctrl-C. A file or directory that is called
    like a command is given as ./NAME.

    Exit codes: 0 done, 1 failure, 2 changes are pending (only with --detailed-exitcode), 64 wrong usage, 130 Ctrl-C.
    """
    _check(path, dry_run=dry_run, once=once, rev=rev, detailed_exitcode=detailed_exitcode, listen=listen)
    if dry_run:
        from reconciler.cli.dry_run import show_plan

        return show_plan(path, rev=rev, state_dir=state_dir, json=json, detailed_exitcode=detailed_exitcode)
    from reconciler import app

    return app.run(path, state_dir=state_dir, once=once, listen=listen, json=json)


def _check(
    path: Path, *, dry_run: bool, once: bool, rev: str | None, detailed_exitcode: bool, listen: str | None
) -> None:
    name = os.fspath(path)
    if not path.exists() and os.sep not in name and (guess := near(name, VERBS)):
        raise UsageError(
            f'there is no command, file or directory "{one_line(name)}"; did you mean "{guess}"?'
        )
    if dry_run and once:
        raise UsageError("--dry-run and --once exclude each other")
    if dry_run and listen is not None:
        raise UsageError("--listen has no effect with --dry-run")
    if rev is not None and not dry_run:
        raise UsageError("--rev works with --dry-run only: the loop follows the files")
    if detailed_exitcode and not dry_run:
        raise UsageError("--detailed-exitcode works with --dry-run only")
