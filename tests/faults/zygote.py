"""tests/zygote.py for managers that can be hurt: their clock is the test's, and they die where a wound is armed."""

import faults.clock  # isort: skip - before anything that keeps `time.time` for itself
from pathlib import Path
from typing import Any

import reconciler.engines
import zygote
from faults import wounds

SCRIPTED = Path(__file__).resolve().parents[1] / "scripted_engines"


def prepare(order: dict[str, Any]) -> None:
    """Have the fork look at its files."""
    if "SILENCE" in order["env"]:
        from nervous_manager import lose_patience

        lose_patience(float(order["env"]["SILENCE"]))
    if "wound" not in order:
        return  # a command of a person beside the manager
    wounds.armed_by(Path(order["wound"]))
    faults.clock.set_by(Path(order["wound"]).with_name("clock"))


if __name__ == "__main__":
    zygote.bring_in()
    reconciler.engines.__path__.append(str(SCRIPTED))
    wounds.patch()
    zygote.serve(prepare)
