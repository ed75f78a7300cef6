"""Random faults at random times; more of them: `PYTHONPATH=tests python -m faults.soak --minutes 30`."""

from pathlib import Path

import pytest

from faults.rig import standing
from faults.soak import Soak, figures
from manifest_mutants import judged, mutants
from nursery import Nursery
from reconciler.manifest import Applied
from support import wait_for

#: Seconds of the run that is part of every test run, and of the one on demand.
SHORT, LONG = 15.0, 600.0


@pytest.mark.parametrize(
    ("seconds", "seed"),
    [
        pytest.param(SHORT, 20261130, marks=pytest.mark.timeout(180)),
        pytest.param(LONG, 1, marks=[pytest.mark.slow_faults, pytest.mark.timeout(LONG + 180)]),
    ],
)
def test_everything_is_in_order_again_after_whatever_happened(
    tmp_path: Path, nursery: Nursery, seconds: float, seed: int
) -> None:
    with standing(tmp_path, nursery) as rig:
        soak = Soak(rig, seed)
        soak.run(seconds)
    print(figures(soak))
    assert soak.rounds


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "count", [pytest.param(40, id="some"), pytest.param(400, id="many", marks=pytest.mark.slow_faults)]
)
def test_no_broken_manifest_touches_a_model(tmp_path: Path, nursery: Nursery, count: int) -> None:
    """They are saved so fast that few stand still for long enough to count; the last is refused, and then mended."""
    broken = [data for data in mutants(seed=11, count=2 * count) if not isinstance(judged(data), Applied)][
        :count
    ]
    with standing(tmp_path, nursery) as rig:
        rig.begin()
        rig.loaded("chat")
        sound, generation = rig.file.read_bytes(), rig.status()["manifest"]["generation"]
        draft = rig.root / "draft.yaml"
        for number, data in enumerate(broken):
            draft.write_bytes(data)
            draft.replace(rig.file)
            if number % 20 == 0:
                rig.asks("chat").answered()
        wait_for(lambda: rig.condition("ManifestValid") is None, 15, "a manifest that is refused")
        rig.asks("pin").answered()
        draft.write_bytes(sound)
        draft.replace(rig.file)
        wait_for(lambda: rig.condition("ManifestValid"), 15, "a manifest that is mended")
        assert rig.status()["manifest"]["generation"] == generation
        assert rig.steps() == ["load pin", "loaded pin", "load chat", "loaded chat"]
        assert "Traceback" not in rig.output.read_text()
        assert rig.processes("chat") == [rig.witnesses["chat"]]
        assert rig.processes("pin") == [rig.witnesses["pin"]]
