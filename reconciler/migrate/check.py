"""Whether a converted manifest is one: it is read by the program's own loader before anybody relies on it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from reconciler.manifest.applied import Applied
from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.files import Content, FileBytes
from reconciler.manifest.load import apply_content
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Map, SourceFile
from reconciler.manifest.yaml_source import parse

_VARIABLE: Final = re.compile(r"(?<!\$)\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def variables(text: str) -> tuple[str, ...]:
    """Return the variables that a manifest takes values from and that have no default, sorted."""
    return tuple(sorted(set(_VARIABLE.findall(text))))


def stand_ins(text: str) -> dict[str, str]:
    """Return a value for each variable of a manifest: `1` is a number, a path and a key."""
    return dict.fromkeys(variables(text), "1")


def load(text: str, directory: Path, environ: Mapping[str, str]) -> Applied:
    """Read `text` as a manifest in `directory`. Raises ManifestError. Blocks.

    A variable that is not set counts as `1`: what it will hold is not known.
    """
    file = FileBytes("models.yaml", directory, text.encode(), entry="models.yaml")
    return apply_content(Content("models.yaml", (file,)), environ={**stand_ins(text), **environ})


def models_of(text: str, diagnostics: Iterable[Diagnostic]) -> dict[str, list[Diagnostic]]:
    """Return what is wrong by the model it stands in; under "" what stands in none."""
    starts = _starts(text)
    found: dict[str, list[Diagnostic]] = {}
    for each in diagnostics:
        name = next((name for line, name in reversed(starts) if line <= each.line), "")
        found.setdefault(name, []).append(each)
    return found


def _starts(text: str) -> list[tuple[int, str]]:
    """Return where each model begins, and under "" where the first section behind them does."""
    root = parse(text, SourceFile("models.yaml", Path(), text), Problems())
    if not isinstance(root, Map):
        return []
    models = root.items["models"].value
    starts = [(entry.key.mark.line, "") for entry in root.items.values()]
    if isinstance(models, Map):
        starts += [(entry.key.mark.line, name) for name, entry in models.items.items()]
    return sorted(starts)
