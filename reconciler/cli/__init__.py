"""The command line.

Exit codes: 0 done, 1 failure, 2 changes (only --detailed-exitcode), 64 usage, 130 a verb was interrupted; a loop that
is ended by Ctrl-C or SIGTERM ends its models and exits 0.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reconciler.cli.output import FAILURE, USAGE, CliError, UsageError, note

if TYPE_CHECKING:
    from cyclopts import App

INTERRUPTED: Final = 130
#: What a shell reports of a program that wrote into a closed pipe.
BROKEN_PIPE: Final = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has left; the interpreter must not fail once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _run(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--version"]:
        return _version(words[1:])
    from cyclopts import CycloptsError

    try:
        code = make_app(_needed(argv))(list(argv) if argv is not None else None)
    except CycloptsError as error:
        note(f"error: {_mistyped_verb(argv) or error}\n{_see(argv)}")
        return USAGE
    except CliError as error:
        note(f"{error.prefix}{error}")
        if isinstance(error, UsageError):
            note(_see(argv))
        return error.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        note(f"error: {error}")
        return FAILURE
    return code if isinstance(code, int) else 0


def _version(words: Sequence[str]) -> int:
    """Print what this program is: without the library for command lines, which takes half of the time."""
    from reconciler.cli.version import show_version

    try:
        return show_version(words)
    except UsageError as error:
        note(f"error: {error}")
        return error.code


def _see(argv: Sequence[str] | None) -> str:
    """Return where the right usage stands: that of the verb, where there is one."""
    from reconciler.cli.run import VERBS

    verb = _first_word(argv)
    return f"see: reconcile {verb} --help" if verb in VERBS else "see: reconcile --help"


def _first_word(argv: Sequence[str] | None) -> str:
    return next(iter(sys.argv[1:] if argv is None else argv), "-")


def _mistyped_verb(argv: Sequence[str] | None) -> str | None:
    """Return what is wrong with a first word that was taken for a path: the fault is there, not in what follows it."""
    from reconciler.cli.run import VERBS, mistyped

    word = _first_word(argv)
    return None if word.startswith("-") or word in VERBS else mistyped(word)


#: The library's own command, which completion scripts call with the words so far.
COMPLETE: Final = "__complete"

#: The verbs that ask the loop, and the scope their API key needs.
SCOPES: Final = {
    "status": "read",
    "top": "read",
    "explain": "read",
    "events": "read",
    "history": "read",
    "budget": "read",
    "measure": "admin, read and infer",
    "logs": "read",
    "load": "admin (and read, to wait)",
    "evict": "admin (and read, to wait)",
    "forget": "admin",
    "resume": "admin",
    "hold": "admin",
    "release": "admin",
    "stop": "admin",
}


def _needed(argv: Sequence[str] | None) -> Sequence[str]:
    """Return the verbs that a command line is about: to import them all is much of what a short command takes."""
    from reconciler.cli.run import VERBS

    words = sys.argv[1:] if argv is None else argv
    first = _first_word(argv)
    if first == COMPLETE and len(words) > 1:  # a shell asks what may follow
        first = words[1]
    if first in VERBS:
        return (first,)
    return VERBS if not {"--help", "-h"}.isdisjoint(words) else ()


def make_app(verbs: Sequence[str]) -> "App":
    """Return the cyclopts application: the default command, and these verbs, each defined in the file of that name."""
    from cyclopts import App, Group

    import reconciler
    from reconciler.cli.help import HelpTable
    from reconciler.cli.run import VERBS, run

    app = App(
        name="reconcile",
        version=reconciler.__version__,
        help_format="plaintext",
        help_formatter=HelpTable(),
        help_epilogue="RECONCILE_API_KEY: the API key, if the manifest asks for one.",
        group_parameters=Group("Options"),
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    app.default(run)
    for verb in verbs:
        module = importlib.import_module(f"reconciler.cli.{'imports' if verb == 'import' else verb}")
        place = VERBS.index(verb)
        if add := getattr(module, f"add_{verb}", None):  # a verb with verbs of its own
            add(app, sort_key=place)
            continue
        # What the library makes of `*command` is `[ARGS...]`, and says nothing of the dashes.
        usage = "reconcile hold [OPTIONS] MODEL [-- COMMAND...]" if verb == "hold" else None
        app.command(getattr(module, verb), sort_key=place, help_epilogue=_epilogue(verb), usage=usage)
    return app


def _epilogue(verb: str) -> str:
    """Return what stands below the help of a verb."""
    if verb not in SCOPES:
        return ""
    return f"RECONCILE_API_KEY: the API key, if the manifest asks for one; scope {SCOPES[verb]}."
