"""Models that live and do not serve, in every state."""

from collections.abc import Iterator
from functools import partial

import pytest

from faults.cells import Cell, family, parametrized
from faults.conftest import Shelf, Trial
from faults.nursery import Nursery
from faults.rig import standing
from faults.sick import NervousRig


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Shelf]:
    """The rig of this file."""
    stand = partial(standing, kind=NervousRig, env={"SILENCE": "1"})
    one = Shelf(lambda: tmp_path_factory.mktemp("rig"), nursery, stand)
    yield one
    one.close()


@parametrized(family("cells_model_hangs"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
