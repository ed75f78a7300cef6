"""`reconcile import llama-swap|ollama`: a manifest made of what another program was told."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

from cyclopts import Parameter

from reconciler.cli.output import CHANGES, FAILURE, OK, CliError, UsageError, colour, note, say, say_json

if TYPE_CHECKING:
    from cyclopts import App

    from reconciler.migrate.converted import Converted

Out = Annotated[
    Path | None,
    Parameter(
        name="--out",
        metavar="FILE",
        help="Where to write the manifest; in a folder, models.yaml [default: -, which prints it].",
    ),
]
Force = Annotated[
    bool, Parameter(negative=(), show_default=False, help="Write over a file that is there already.")
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
    _check(out, force=force)
    data = read_regular(file, FILE_LIMIT + 1)
    folder = file.absolute().parent
    return _finish(
        convert(data, os.fspath(file), folder, os.environ), os.fspath(file), out, force=force, json=json
    )


def _check(out: Path | None, *, force: bool) -> None:
    """Raise before any work is done for nothing."""
    from reconciler.migrate import output

    if _printed(out):
        if force:
            raise UsageError("--force has no effect without --out")
        return
    assert out is not None, "it is not printed"
    try:
        output.refuse(output.target(out), force=force)
    except output.OutputError as error:
        raise CliError(str(error)) from error


def _printed(out: Path | None) -> bool:
    return out is None or os.fspath(out) == "-"


def _finish(made: "Converted", source: str, out: Path | None, *, force: bool, json: bool) -> int:
    """Print or write the manifest, and report."""
    from reconciler.migrate import output
    from reconciler.render.migrate_text import import_text

    written = None
    if made.text and out is not None and not _printed(out):
        written = output.target(out)
        output.refuse(written, force=force)
        output.write(made.text, written, {**os.environ, **made.secrets})
    document = report(made, source, written)
    if json:
        say_json(document)
    else:
        if made.text and written is None:
            say(made.text.rstrip("\n"))
        note(import_text(document, colour=colour(_stderr())))
        if written is not None:
            _next(written)
    if not made.text:
        return FAILURE
    return OK if made.complete else CHANGES


def _stderr() -> TextIO:
    import sys

    return sys.stderr


def _next(written: Path) -> None:
    from reconciler.migrate import output

    note(f"next: reconcile validate {written}; reconcile budget {written}; reconcile --dry-run {written}")
    if others := output.neighbours(written):
        note(
            f"beside it lie {', '.join(others)}: given as a folder, {written.parent} is one manifest made of all"
        )


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
