"""The disk of the state directory."""

import pytest

from faults.cells import Cell, family, parametrized
from faults.cells_disk import on_disk
from faults.conftest import Stand, Trial


@pytest.fixture(scope="module")
def stand() -> Stand:
    return on_disk


@parametrized(family("cells_disk"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
