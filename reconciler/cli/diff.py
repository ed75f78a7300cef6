"""`reconcile diff REV1 [REV2]`: what would change between two revisions of a manifest, and what would come of it."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import CHANGES, FAILURE, OK, colour, note, say, say_json

if TYPE_CHECKING:
    from reconciler.core.memory import Memory
    from reconciler.core.types import World
    from reconciler.manifest.applied import Applied
    from reconciler.manifest.files import Content
    from reconciler.manifest.machine_file import DescribedMachine
    from reconciler.revisions.compare import Comparison
    from reconciler.revisions.keys import Side


def diff(
    rev1: Annotated[str, Parameter(help="The git revision to compare with.")],
    rev2: Annotated[
        str | None, Parameter(help="The other revision [default: the files as they are].", show_default=False)
    ] = None,
    /,
    *,
    manifest: Annotated[
        Path, Parameter(metavar="PATH", help="Manifest: a YAML file, or a directory of such.")
    ] = Path("manifests"),
    machine: options.Machine = None,
    json: options.Json = False,
    detailed_exitcode: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Exit 2 if the two differ in meaning.")
    ] = False,
    strict: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Exit 1 if a model can no longer be in memory that could before.",
        ),
    ] = False,
) -> int:
    """Show what would change between two revisions of a manifest.

    Key by key, with the place of each; then the plan of the second where the first has had its way, what each model
    takes before and after, and who no longer fits. No manager has to run: the machine is taken as if nothing else were
    in its memory, or as --machine describes it.
    """
    from reconciler.render.diff_text import diff_text
    from reconciler.render.plan_document import as_json
    from reconciler.render.plan_text import plan_lines

    compared = _compared(manifest, rev1, rev2, machine)
    document: dict[str, Any] = as_json(compared.document)
    if json:
        say_json(document)
    else:
        say(diff_text(document, plan_lines(compared.plan, colour=colour()), colour=colour()))
    if strict and document["lost"]:
        note("error: models can no longer be in memory (--strict): see above")
        return FAILURE
    return CHANGES if detailed_exitcode and document["changes"] else OK


def _compared(path: Path, rev1: str, rev2: str | None, machine: Path | None) -> "Comparison":
    """Return the comparison. Raises ManifestRefusedError with the faults of both revisions."""
    from reconciler.cli.manifests import ManifestRefusedError
    from reconciler.manifest.described_world import NOW
    from reconciler.manifest.diagnostics import ManifestError
    from reconciler.revisions.compare import State, compare

    read: list[tuple[Applied, Side]] = []
    refused: list[str] = []
    # The second first: where it is there, the first may lack the manifest as a whole.
    for rev in (rev2, rev1):
        try:
            read.append(_read(path, rev, may_lack=bool(read)))
        except ManifestError as error:
            refused.insert(0, error.render())
    if refused:
        raise ManifestRefusedError("\n\n".join(dict.fromkeys(refused)))
    read.reverse()
    look = _look(machine, [applied for applied, _ in read])
    old, new = (State(a, s, look(a), rev) for (a, s), rev in zip(read, (rev1, rev2), strict=True))
    return compare(old, new, NOW, described=machine is not None)


def _read(path: Path, rev: str | None, *, may_lack: bool) -> "tuple[Applied, Side]":
    """Return the manifest as it is understood, and as it is written. Raises ManifestError."""
    from reconciler.manifest.load import apply_content, read_document
    from reconciler.revisions.keys import Side

    content = _content(path, rev, may_lack=may_lack)
    applied = apply_content(content, environ=os.environ)
    return applied, Side(*read_document(content, environ=os.environ))


def _content(path: Path, rev: str | None, *, may_lack: bool) -> "Content":
    """Return the manifest's files; where it may lack them, those of a manifest that wants nothing."""
    from reconciler.manifest import git
    from reconciler.manifest.files import Content, FileBytes, read_content, shown

    if rev is None:
        return read_content(path)
    if not may_lack or not git.absent(path, rev):
        return git.read_revision(path, rev)
    note(f"note: {shown(path)} is not in {rev}: everything is new")
    nothing = FileBytes(f"{rev}:{shown(path)}", path.absolute(), b"apiVersion: reconciler/v1\nmodels: {}\n")
    return Content(shown(path), (nothing,), rev=rev)


def _look(machine: Path | None, both: "list[Applied]") -> "Callable[[Applied], World]":
    """Return what tells the world that a manifest would find: what is described, or this machine, empty.

    Raises ManifestRefusedError for a description with faults.
    """
    if machine is None:
        memory = _empty_machine()
        return lambda applied: _here(applied, memory)
    from reconciler.cli.described import read_machine

    # One file for both: a model of either may have its size in it.
    described = read_machine(machine, {name: None for applied in both for name in applied.launches})
    return lambda applied: _there(applied, described)


def _there(applied: "Applied", machine: "DescribedMachine") -> "World":
    from reconciler.manifest import described_world

    loaded = {name: there for name, there in machine.loaded.items() if name in applied.launches}
    return described_world.world(applied, machine.model_copy(update={"loaded": loaded, "waiting": {}}))


def _here(applied: "Applied", memory: "Memory") -> "World":
    from reconciler.core.types import Observation, World
    from reconciler.loop.preflights import examine
    from reconciler.manifest.described_world import NOW

    found = tuple(examine(spec) for _, spec in sorted(applied.launches.items()))
    return World(Observation(1, NOW, memory, preflights=found))


def _empty_machine() -> "Memory":
    """Return this machine's memory as it is when nobody uses it."""
    from reconciler.core.memory import Memory
    from reconciler.host.ask import run_command
    from reconciler.memory.machine import open_machine

    seen = open_machine(run_command).read(time.monotonic())
    return Memory(seen.total, seen.total, seen.source, gpu=seen.gpu, problems=seen.problems)
