"""SIGSTOP and SIGCONT of the manager, alone and with all its models, in every state."""

from faults.cells import Cell, family, parametrized
from faults.conftest import Trial


@parametrized(family("manager_pause"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
