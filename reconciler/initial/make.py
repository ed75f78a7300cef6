"""From folders to a written manifest and the report of it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.core.memory import Memory
from reconciler.initial import places, text, write
from reconciler.initial.choose import Choice, Chosen, choose
from reconciler.initial.found import LeftOut
from reconciler.initial.search import Findings, search
from reconciler.initial.serving import ALWAYS, Here
from reconciler.initial.walk import Bounds, Walk
from reconciler.manifest.files import shown
from reconciler.render.init_shapes import (
    InitDocument,
    InitEngineDocument,
    InitLeftOutDocument,
    InitModelDocument,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for, and the machine it was asked on."""

    #: Folders and files to search; () = where programs usually keep models.
    folders: tuple[Path, ...]
    out: Path
    memory: Memory
    here: tuple[Here, ...]
    clock: Callable[[], float]
    home: Path
    cwd: Path
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    pin: tuple[str, ...] = ()
    force: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    #: Whether this program has a verb `import`.
    imports: bool = False


def make(wanted: Wanted, tell: Callable[[int, int], None]) -> InitDocument:
    """Search, choose, write the manifest, and return what was done. Blocks; `tell` hears how far the search is.

    Nothing is written before the text was read as a manifest, with the files beside it. Raises OccupiedError,
    CannotPinError, ManifestError, OSError.
    """
    path = write.target(wanted.out)
    write.check(path, force=wanted.force)
    searched = wanted.folders or places.usual(wanted.home, wanted.cwd, wanted.environ)
    absolute = [Path(os.path.abspath(folder)) for folder in searched]
    findings = search(absolute, Walk(wanted.bounds, wanted.clock), tell)
    chosen = choose(findings.models, wanted.here, wanted.memory, wanted.pin)
    left_out = tuple(sorted((*findings.left_out, *chosen.left_out), key=lambda one: (one.path, one.why)))
    folder = Path(os.path.abspath(path)).parent
    written = text.manifest_text(chosen, left_out, folder, shown(wanted.out))
    applied = write.proved(path, written, wanted.environ)
    kept = write.write(path, written, force=wanted.force)
    address = f"http://{applied.gateway.host}:{applied.gateway.port}"
    return _report(wanted, path, kept, searched, findings, chosen, left_out, address)


def _report(
    wanted: Wanted,
    path: Path,
    kept: Path | None,
    searched: Sequence[Path],
    findings: Findings,
    chosen: Chosen,
    left_out: Sequence[LeftOut],
    address: str,
) -> InitDocument:
    called = shown(wanted.out)
    return InitDocument(
        manifest=shown(path),
        kept=shown(kept) if kept is not None else None,
        searched=tuple(shown(folder) for folder in searched),
        unfinished=findings.unfinished,
        total=chosen.total,
        budget=chosen.budget,
        engines=tuple(InitEngineDocument(e.name, e.program, e.version) for e in wanted.here),
        models=tuple(_model(choice) for choice in chosen.choices),
        left_out=tuple(InitLeftOutDocument(shown(one.path), one.why) for one in left_out),
        hints=tuple(_hints(wanted, findings, chosen)),
        next=(
            f"reconcile validate {called}",
            f"reconcile budget {called}",
            f"reconcile --dry-run {called}",
            f"reconcile {called}",
        ),
        address=address,
    )


def _model(choice: Choice) -> InitModelDocument:
    model = choice.model
    return InitModelDocument(
        name=choice.name,
        engine=choice.engine,
        role=model.role.value,
        weights=str(model.path),
        projector=str(model.projector) if model.projector else None,
        context=choice.tokens,
        length=model.length,
        size=model.size,
        steady=choice.steady,
        need=choice.need,
        priority=choice.priority,
        residency="pinned" if choice.pinned else "on_demand",
    )


def _hints(wanted: Wanted, findings: Findings, chosen: Chosen) -> list[str]:
    hints = [findings.unfinished] if findings.unfinished else []
    if findings.again:
        hints.append(f"{findings.again} further paths lead to files that are in the manifest already")
    used = {choice.engine for choice in chosen.choices}
    if ALWAYS in used and ALWAYS not in {engine.name for engine in wanted.here}:
        hints.append(
            "llama.cpp is not here, and models in the manifest need it: pip install 'reconciler[llama]', or put "
            "llama.cpp's llama-server on PATH"
        )
    ollama = places.ollama(wanted.home, wanted.environ)
    if ollama is not None and not wanted.folders:
        how = (
            "`reconcile import ollama` reads them"
            if wanted.imports
            else "docs/engines.md says how to serve them"
        )
        hints.append(f"Ollama keeps models of its own in {shown(ollama)}: {how}")
    return hints
