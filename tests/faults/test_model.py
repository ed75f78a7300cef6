"""Models that die, are ended, or fall ill, in every state."""

from collections.abc import Iterator
from functools import partial

import pytest

from faults.cells import Cell, family, parametrized
from faults.conftest import Shelf, Trial
from faults.nursery import Nursery
from faults.rig import standing
from faults.sick import SickRig


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Shelf]:
    """The rig of this file."""
    one = Shelf(lambda: tmp_path_factory.mktemp("rig"), nursery, partial(standing, kind=SickRig))
    yield one
    one.close()


@parametrized(family("cells_model") + family("cells_model_rest") + family("cells_model_special"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
