"""kill -9 of the manager in every state."""

from faults.cells import Cell, family, parametrized
from faults.conftest import Trial


@parametrized(family("manager_kill"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
