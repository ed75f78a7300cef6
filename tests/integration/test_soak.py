"""A short soak: real llama.cpp servers, sized by their own estimates, on a machine too small for them all."""

from collections.abc import Callable
from pathlib import Path

import pytest

from manager import Manager
from small_machine import small_machine
from soak import Soak
from soak_models import small

pytest.importorskip("xllamacpp")
# A quarter of a minute, but real work for the processor: on a busy machine it takes several times as long.
pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

STEPS = 40
SEED = 7


def test_random_steps_end_nobody_and_refuse_nobody_who_fits(
    tmp_path: Path, new_manager: Callable[..., Manager]
) -> None:
    layout = small()
    layout.write_weights(tmp_path / "weights")
    with small_machine(layout.limit) as machine:
        manager = new_manager(inside=machine)
        soak = Soak(machine, manager, layout, SEED)
        soak.run(STEPS)
        assert soak.faults == []
        assert sum(soak.steps.values()) == STEPS
        # Nothing would be shown if all had fitted: models made room for each other, and page cache filled the rest.
        assert len(manager.log("evict", reason="MakeRoom")) >= 5
        assert soak.watcher.most_used > 0.9 * soak.layout.limit * 1024 * 1024
        assert soak.watcher.looks > 20
        manager.stop()
