"""The files that a simulation writes: its picture, and all loads and evictions."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.output import CliError, UsageError

if TYPE_CHECKING:
    from reconciler.simulate.result import Result


def check(picture: Path | None, actions: Path | None) -> None:
    """Raise before a long simulation what could not be written after it."""
    if picture is not None and picture.suffix.lower() != ".svg":
        raise UsageError(
            f"--picture draws SVG, so the file is to be called NAME.svg, not {picture.name}; browsers show it,"
            " and print it or save it as other formats"
        )
    for path, option in ((picture, "--picture"), (actions, "--actions")):
        if path is not None and not path.parent.is_dir():
            raise CliError(f"{option}: there is no directory {path.parent}")
        if path is not None and path.is_dir():
            raise CliError(f"{option}: {path} is a directory")


def write(picture: Path | None, actions: Path | None, results: "Sequence[Result]") -> str:
    """Write the files that were asked for; return what went wrong with them, for people, "" = nothing."""
    return "; ".join(_failures(picture, actions, results))


def _failures(picture: Path | None, actions: Path | None, results: "Sequence[Result]") -> Iterator[str]:
    for path, option, lines in ((picture, "--picture", _drawn), (actions, "--actions", _decided)):
        if path is not None and (why := _write(path, lines, results)):
            yield f"{option}: {path} could not be written: {why}; name a file in a directory that takes one"


def _write(
    path: Path, lines: "Callable[[Sequence[Result]], Iterator[str]]", results: "Sequence[Result]"
) -> str:
    """Write a file; return why that failed, "" = it did not. What was not there before is not left half written."""
    from reconciler.manifest.files import explain_os_error

    there = path.exists()
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(lines(results))
    except OSError as error:
        if not there:
            path.unlink(missing_ok=True)
        return explain_os_error(error)
    return ""


def _drawn(results: "Sequence[Result]") -> Iterator[str]:
    from reconciler.render.simulate_picture import picture
    from reconciler.simulate.scene import panels

    yield picture(panels(results))


def _decided(results: "Sequence[Result]") -> Iterator[str]:
    from reconciler.simulate.scene import decisions

    for line in decisions(results):
        yield json.dumps(line, ensure_ascii=False) + "\n"
