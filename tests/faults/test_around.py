"""Disks, files, limits, ports and clocks around the manager."""

from faults.cells import Cell, family, parametrized
from faults.conftest import Trial


@parametrized(family("cells_around"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
