"""`reconcile import llama-swap|ollama`: a manifest made of what another program was told."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from reconciler.cli.output import CHANGES, FAILURE, OK, CliError, UsageError, colour, note, say, say_json
from reconciler.manifest.files import SUFFIXES

if TYPE_CHECKING:
    from cyclopts import App

    from reconciler.migrate.converted import Converted

Out = Annotated[
    Path | None,
    Parameter(
        name="--out",
        metavar="PATH",
        help="Folder, or *.yaml file, that the manifest is written to [default: -, which prints it].",
    ),
]
Force = Annotated[
    bool,
    Parameter(
        negative=(), show_default=False, help="Write although a manifest is there; the old file is kept."
    ),
]
Json = Annotated[
    bool, Parameter(name="--json", negative=(), show_default=False, help="Print the report as JSON.")
]


def add_import(app: "App", sort_key: int) -> None:
    """Add the verb with one command for each program."""
    from cyclopts import App, Group

    group = App(
        name="import",
        help="Make a manifest of what llama-swap or Ollama was told.",
        sort_key=sort_key,
        help_epilogue="",
        group_parameters=Group("Options"),
    )
    group.command(llama_swap, name="llama-swap", sort_key=0, help_epilogue="")
    group.command(ollama, sort_key=1, help_epilogue="")
    app.command(group)


def llama_swap(
    file: Annotated[Path, Parameter(help="llama-swap's configuration.")],
    /,
    *,
    out: Out = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """Make a manifest of llama-swap's configuration.

    Prints it, or writes it with --out, and reports to stderr what could not be carried over, with file, line and
    column: nothing is left out silently. Paths are taken from the configuration's folder. Secrets do not get into the
    manifest. Nothing is started, and the source is not changed.

    Exit codes: 0 all was carried over; 2 something was not, or is left to do; 1 there can be no manifest.
    """
    from reconciler.manifest.files import FILE_LIMIT
    from reconciler.memory.regular import read_regular
    from reconciler.migrate.llama_swap.convert import convert

    if file.is_dir():
        raise UsageError(f"{file} is a folder: name one configuration")
    target = _target(out, force=force)
    made = convert(read_regular(file, FILE_LIMIT + 1), os.fspath(file), file.absolute().parent, os.environ)
    return _finish(made, os.fspath(file), target, force=force, json=json)


def ollama(
    folder: Annotated[
        Path | None,
        Parameter(help="Ollama's models [default: $OLLAMA_MODELS, ~/.ollama/models, /usr/share/ollama/...]."),
    ] = None,
    /,
    *,
    engine: Annotated[
        Literal["llama.cpp", "ollama"],
        Parameter(help="Who serves them: llama.cpp, from the files; or a server of Ollama's for each."),
    ] = "llama.cpp",
    out: Out = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """Make a manifest of the models that Ollama has downloaded.

    The files stay where they are, and Ollama can go on using them. Names and tags are the models' names; context and
    parameters come from their Modelfiles. What has no counterpart is reported, and so is what is not whole, runs in
    Ollama's cloud, or is in another format. Nothing is started or downloaded.

    Exit codes: 0 all was carried over; 2 something was not, or is left to do; 1 there can be no manifest.
    """
    from reconciler.initial import places
    from reconciler.migrate.ollama.convert import convert

    where = folder or places.ollama(Path.home(), os.environ)
    if where is None:
        raise CliError("Ollama's models were not found: name their folder, as OLLAMA_MODELS does")
    target = _target(out, force=force)
    return _finish(
        convert(where.absolute(), os.environ, engine), os.fspath(where), target, force=force, json=json
    )


def _target(out: Path | None, *, force: bool) -> Path | None:
    """Return the file to write, None to print. Raises before any work is done for nothing."""
    from reconciler.initial import write

    if out is None or os.fspath(out) == "-":
        if force:
            raise UsageError("--force has no effect without --out")
        return None
    if out.is_file() and out.suffix not in SUFFIXES:
        raise UsageError(f"{out} is no *.yaml file, and no folder")
    try:
        write.check(write.target(out), force=force)
    except write.OccupiedError as error:
        raise CliError(str(error)) from error
    return write.target(out)


def _finish(made: "Converted", source: str, written: Path | None, *, force: bool, json: bool) -> int:
    """Print or write the manifest, and report."""
    from reconciler.render.migrate_text import import_text

    kept = _write(made, written, force=force) if made.text and written is not None else None
    document = report(made, source, written if made.text else None)
    if json:
        say_json(document)
    else:
        if made.text and written is None:
            say(made.text.rstrip("\n"))
        note(import_text(document, colour=colour(sys.stderr)))
    if kept is not None:
        note(f"what was there is kept as {kept}")
    if not made.text:
        return FAILURE
    return OK if made.complete else CHANGES


def _write(made: "Converted", path: Path, *, force: bool) -> Path | None:
    """Write the manifest if it is one, together with what lies beside it; return where the file before it is kept."""
    from reconciler.initial import write
    from reconciler.manifest.diagnostics import ManifestError
    from reconciler.migrate.check import stand_ins

    environ = {**stand_ins(made.text), **os.environ, **made.secrets}
    try:
        write.proved(path, made.text, environ)
        return write.write(path, made.text, force=force)
    except write.OccupiedError as error:
        raise CliError(str(error)) from error
    except ManifestError as error:
        raise CliError(
            f"nothing was written, since the manifest would be refused:\n{error.render()}"
        ) from error


def report(made: "Converted", source: str, written: Path | None) -> dict[str, object]:
    """Return the document of `schemas/import.v1.json`."""
    from reconciler.render.migrate_shapes import ImportDocument, ImportFindingDocument
    from reconciler.render.plan_document import as_json

    findings = tuple(
        ImportFindingDocument(f.file, f.line or None, f.col or None, f.kind.value, f.key, f.what, f.advice)
        for f in made.findings
    )
    text = made.text if made.text and written is None else None
    return as_json(
        ImportDocument(
            source,
            made.complete,
            os.fspath(written) if written is not None else None,
            text,
            made.models,
            findings,
            tuple(diagnostic.render() for diagnostic in made.refused),
        )
    )
