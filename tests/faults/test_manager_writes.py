"""kill -9 of the manager at each write of its ledger, each start of a process and each signal."""

from faults.cells import Cell, family, parametrized
from faults.conftest import Trial


@parametrized(family("manager_writes"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
