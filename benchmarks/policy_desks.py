"""Desks that policies are compared on: those of the tests, and ones that nobody has tuned anything on."""

import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from examples.traces.kinds import KINDS, make
from reconciler.manifest import load_manifest
from reconciler.manifest.machine_file import load_machine
from reconciler.simulate.layout import Layout
from reconciler.simulate.layout_build import layout_there
from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_read import read_trace, write_trace

OPEN: Final = Path(__file__).resolve().parents[1] / "tests" / "traces"


def open_desks() -> list[str]:
    """Return the names of the desks of the tests."""
    return sorted(folder.name for folder in OPEN.iterdir() if folder.is_dir())


def unseen_desks(seeds: Sequence[int]) -> list[str]:
    """Return the names of made-up desks: each kind with each seed."""
    return [f"{kind}/{seed}" for kind in sorted(KINDS) for seed in seeds]


@lru_cache(maxsize=2)
def desk(name: str) -> tuple[Layout, Trace]:
    """Return the layout and the trace of a desk, by one of the names above."""
    if "/" not in name:
        return in_folder(OPEN / name)
    kind, _, seed = name.partition("/")
    made = make(kind, int(seed))
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as given:
        folder = Path(given)
        (folder / "manifest.yaml").write_text(made.manifest, "utf-8")
        (folder / "machine.yaml").write_text(made.machine, "utf-8")
        write_trace(made.trace, folder / "trace.csv.gz")
        return in_folder(folder)


def in_folder(folder: Path) -> tuple[Layout, Trace]:
    """Return what a folder describes; see tests/traces/README.md."""
    applied = load_manifest(folder / "manifest.yaml", environ={})
    machine = load_machine(folder / "machine.yaml", applied.launches, {})
    return layout_there(applied, machine, name=folder.name), read_trace(folder / "trace.csv.gz")
