"""`reconcile [PATH]`: run the loop, converge once, or show the plan."""

import gc
import os
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.names import near
from reconciler.cli.output import UsageError
from reconciler.render.paint import one_line

DEFAULT_PATH: Final = Path("manifests")
VERBS: Final = (
    "init",
    "validate",
    "diff",
    "schema",
    "status",
    "top",
    "explain",
    "events",
    "history",
    "budget",
    "measure",
    "doctor",
    "simulate",
    "logs",
    "load",
    "evict",
    "forget",
    "resume",
    "hold",
    "release",
    "stop",
    "service",
    "completion",
    "import",
)


def run(
    path: Annotated[
        Path, Parameter(help="Manifest: a YAML file, or a directory whose *.yaml files are merged.")
    ] = DEFAULT_PATH,
    /,
    *,
    dry_run: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Print the plan and exit; touch nothing.")
    ] = False,
    once: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Act until all is as it should be, exit, leave the models up.",
        ),
    ] = False,
    rev: options.Rev = None,
    json: options.Json = False,
    machine: options.Machine = None,
    detailed_exitcode: Annotated[
        bool, Parameter(negative=(), show_default=False, help="With --dry-run: exit 2 if there are changes.")
    ] = False,
    listen: Annotated[
        str | None,
        Parameter(
            metavar="HOST:PORT", help="Where clients connect, in place of the manifest's gateway.listen."
        ),
    ] = None,
    on_exit: Annotated[
        Literal["stop", "leave"] | None,
        Parameter(
            help="What becomes of the models when it ends, in place of the manifest's machine.on_exit: they are "
            "stopped, or they run on for the next reconcile (leave)."
        ),
    ] = None,
    log_requests: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Log a line for each request that is over: its model, key, outcome, waits, seconds and tokens.",
        ),
    ] = False,
    state_dir: options.StateDir = None,
) -> int:
    """Keep the AI model servers of this machine the way a YAML manifest says, within its memory.

    Without a command, run the loop and the gateway in the foreground. Ctrl-C once: requests in flight get up to 30
    seconds, then the models end; twice: all ends at once. A path that is called like a command is given as ./NAME.

    Exit codes: 0 done, also a loop that was ended by Ctrl-C or SIGTERM; 1 failure; 2 changes are pending (only with
    --detailed-exitcode); 64 wrong usage; 130 another command was interrupted.
    """
    _check(path, dry_run=dry_run, once=once, rev=rev, detailed_exitcode=detailed_exitcode, listen=listen)
    if machine is not None and not dry_run:
        raise UsageError("--machine works with --dry-run only: the loop looks at the machine it runs on")
    if on_exit is not None and dry_run:
        raise UsageError("--on-exit has no effect with --dry-run")
    if log_requests and dry_run:
        raise UsageError("--log-requests has no effect with --dry-run")
    if dry_run:
        from reconciler.cli.dry_run import show_plan

        return show_plan(
            path,
            rev=rev,
            state_dir=state_dir,
            json=json,
            detailed_exitcode=detailed_exitcode,
            machine=machine,
        )
    gc.disable()  # what is imported stays: to look for garbage in it takes a twentieth of a start
    import reconciler.telemetry  # noqa: F401 - comes first, so that structlog does without rich
    from reconciler import app
    from reconciler.manifest.applied import OnExit

    gc.freeze()
    gc.enable()
    wanted = OnExit(on_exit) if on_exit is not None else None
    return app.run(
        path,
        state_dir=state_dir,
        once=once,
        listen=listen,
        json=json,
        on_exit=wanted,
        log_requests=log_requests,
    )


def mistyped(word: str) -> str | None:
    """Return what to say of a word that is no command and no path that there is, or None if it may be a path."""
    path = Path(word)
    if path.exists() or path == DEFAULT_PATH or os.sep in word or path.suffix in (".yaml", ".yml"):
        return None
    guess = near(word, VERBS)
    meant = f'; did you mean "{guess}"?' if guess else ""
    return f'"{one_line(word)}" is neither a command nor a file or directory{meant}\ncommands: {", ".join(VERBS)}'


def _check(
    path: Path, *, dry_run: bool, once: bool, rev: str | None, detailed_exitcode: bool, listen: str | None
) -> None:
    if rev is None and (mistake := mistyped(os.fspath(path))):
        raise UsageError(mistake)
    if dry_run and once:
        raise UsageError("--dry-run and --once exclude each other")
    if dry_run and listen is not None:
        raise UsageError("--listen has no effect with --dry-run")
    if rev is not None and not dry_run:
        raise UsageError("--rev works with --dry-run only: the loop follows the files")
    if detailed_exitcode and not dry_run:
        raise UsageError("--detailed-exitcode works with --dry-run only")
