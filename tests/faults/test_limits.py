"""Limits of the manager, taken addresses, and neighbours."""

from faults.cells import Cell, family, parametrized
from faults.conftest import Trial


@parametrized(family("cells_limits"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
