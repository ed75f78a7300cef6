"""Models that live and do not serve, in every state."""

from functools import partial

import pytest

from faults.cells import Cell, family, parametrized
from faults.conftest import Stand, Trial
from faults.rig import standing
from faults.sick import NervousRig


@pytest.fixture(scope="module")
def stand() -> Stand:
    return partial(standing, kind=NervousRig, env={"SILENCE": "1"})


@parametrized(family("cells_model_hangs"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
