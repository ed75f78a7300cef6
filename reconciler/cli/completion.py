"""`reconcile completion SHELL`: what completes commands, options and names of models in a shell."""

from typing import Annotated, Literal

from cyclopts import Parameter

from reconciler.cli.output import CliError, UsageError, note, say


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        Parameter(help="Which shell [default: the one this is run in]."),
    ] = None,
    /,
    *,
    install: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Write it where the shell looks for it, and have ~/.bashrc or ~/.zshrc read it.",
        ),
    ] = False,
) -> int:
    """Print what completes a command line in a shell.

    Commands, options, paths and names of models. The names come from the running manager, or else from manifests/.
    """
    from cyclopts.completion.detect import ShellDetectionError

    from reconciler.cli import make_app
    from reconciler.cli.run import VERBS

    app = make_app(VERBS)
    try:
        if not install:
            say(app.generate_completion(shell=shell).rstrip("\n"))
            return 0
        path = app.install_completion(shell=shell)
    except ShellDetectionError as error:
        raise UsageError("which shell? reconcile completion bash, zsh or fish") from error
    except OSError as error:
        raise CliError(f"the script cannot be written: {error}") from error
    note(f"wrote {path}; it works in shells that are opened from now on")
    return 0
