"""Cells of the manifest around the manager."""

from faults.cells import Cell, family, parametrized
from faults.conftest import Trial


@parametrized(family("cells_manifest"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
