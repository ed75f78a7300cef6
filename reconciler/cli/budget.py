"""`reconcile budget [PATH]`: what every model takes, what there is, and what fits together."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import FAILURE, OK, colour, note, say, say_json


def budget(
    path: Annotated[
        Path | None,
        Parameter(
            help="Manifest: a YAML file or a directory [default: what the running loop has, else manifests]."
        ),
    ] = None,
    /,
    *,
    rev: options.Rev = None,
    machine: options.Machine = None,
    json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Show what every model takes of the memory, and what fits together.

    Weights, KV cache, overhead, load peak, what was measured and what is charged, with a running loop or without one. A
    size that nobody knows is shown as ?, and below stands the key to give. Exits 1 if the pinned models do not fit
    together.
    """
    from reconciler.render.budget_text import budget_text
    from reconciler.store.paths import state_dir as resolve

    directory = resolve(state_dir, create=False)
    document = _of_loop(directory) if path is None and rev is None and machine is None else None
    if document is None:
        from reconciler.cli.run import DEFAULT_PATH

        document = _of_manifest(path or DEFAULT_PATH, rev, directory, machine)
    if json:
        say_json(document)
    else:
        say(budget_text(document, colour=colour(), blocks=_blocks()))
    return FAILURE if document["pinned"]["fits"] is False else OK


def _of_loop(directory: Path) -> dict[str, Any] | None:
    """Return the budget of the loop of this state directory, or None if none runs."""
    from reconciler.cli.client import LoopClient, NotRunningError, running_url

    url = running_url(directory)
    try:
        return LoopClient(url).call("GET", "/api/v1/budget") if url is not None else None
    except NotRunningError:
        return None


def _of_manifest(path: Path, rev: str | None, directory: Path, machine: Path | None) -> dict[str, Any]:
    """Return the budget of a manifest on the described machine, or in the world of the running loop if one runs."""
    from reconciler.cli.dry_run import look, look_at
    from reconciler.cli.manifests import read_manifest
    from reconciler.render.budget_document import budget as budget_of
    from reconciler.render.plan_document import as_json

    applied = read_manifest(path, rev)
    for warning in applied.warnings:
        note(f"warning: {warning}")
    seen = look_at(applied, machine) if machine is not None else look(applied, directory)
    manifest = replace(applied.manifest, generation=seen.generation)
    return as_json(budget_of(manifest, seen.world, applied.source, seen.by))


def _blocks() -> bool:
    """Return whether the output is a terminal that can show block characters."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return sys.stdout.isatty() and encoding == "utf8"
