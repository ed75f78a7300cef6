"""The matrix as data: what is done, when it is done, and what the user sees of it.

A family is one module with `CELLS`. Add yours to `FAMILIES`, and a file of tests for it (see test_manager_kill.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import pytest

from faults.rig import Rig

#: Modules of this package that have `CELLS`, in the order of the page.
FAMILIES: Final = (
    "manager_kill",
    "manager_writes",
    "manager_pause",
    "cells_model",
    "cells_model_rest",
    "cells_model_special",
    "cells_model_hangs",
    "cells_around",
    "cells_disk",
    "cells_manifest",
    "cells_clock",
    "cells_limits",
)


@dataclass(frozen=True)
class Cell:
    """One fault in one state of the machine. `run` brings it about; afterwards the oracle judges all there is."""

    fault: str
    state: str
    #: A sentence for the page.
    sees: str
    run: Callable[[Rig], None]
    #: On demand only: it takes long, or is a variant of another.
    slow: bool = False

    @property
    def id(self) -> str:
        """Name of the test."""
        return f"{self.fault}/{self.state}"


def family(name: str) -> tuple[Cell, ...]:
    """Return the cells of one family."""
    cells: tuple[Cell, ...] = tuple(import_module(f"faults.{name}").CELLS)
    return cells


def every_cell() -> tuple[Cell, ...]:
    """Return the whole matrix. Raises ValueError if two cells have one name."""
    cells = tuple(cell for name in FAMILIES for cell in family(name))
    names = [cell.id for cell in cells]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two cells are called {sorted(twice)}")
    return cells


def parametrized(cells: Iterable[Cell]) -> pytest.MarkDecorator:
    """Return the mark that makes a test run once for each cell."""
    marks = [
        pytest.param(cell, id=cell.id, marks=[pytest.mark.slow_faults] if cell.slow else []) for cell in cells
    ]
    return pytest.mark.parametrize("cell", marks)
