"""Models that die, are ended, or fall ill, in every state."""

from functools import partial

import pytest

from faults.cells import Cell, family, parametrized
from faults.conftest import Stand, Trial
from faults.rig import standing
from faults.sick import SickRig


@pytest.fixture(scope="module")
def stand() -> Stand:
    return partial(standing, kind=SickRig)


@parametrized(family("cells_model") + family("cells_model_rest") + family("cells_model_special"))
def test_cell(cell: Cell, trial: Trial) -> None:
    trial(cell)
