"""The disk of the state directory."""

from collections.abc import Iterator

import pytest

from faults.cells import Cell, family, parametrized
from faults.cells_disk import on_disk
from faults.conftest import Shelf, Trial
from faults.nursery import Nursery


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Shelf]:
    """The rig of this file."""
    one = Shelf(lambda: tmp_path_factory.mktemp("rig"), nursery, on_disk)
    yield one
    one.close()


@parametrized(family("cells_disk"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
