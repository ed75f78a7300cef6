"""A rig whose models fall ill on command, and what is done to them."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final

from faults.acts import go_on, pause
from faults.rig import Rig
from manager import SOON
from support import FAKE, wait_for

SICK: Final = (sys.executable, str(Path(__file__).with_name("sick_engine.py")))


class SickRig(Rig):
    """The standard models but the pin are of sick_engine.py, and there are two more."""

    #: Of all models but the pin.
    TIMEOUTS: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        #: How often the settings of a model were changed.
        self.ages: dict[str, int] = {}

    def standard(self) -> dict[str, dict[str, object]]:
        """Return the models of the manifest: `shut` listens when it is let go, `fixed` has a port of its own."""
        models = super().standard()
        models["shut"] = self.held("shut", "--listen-until", str(self._gate("shut")))
        models["fixed"] = self.held("fixed", port=self.ports[-1])
        return {name: self._sick(name, entry) if name != "pin" else entry for name, entry in models.items()}

    def renew(self, model: str) -> None:
        """Change the settings of a model, so that what is known of the old ones does not count."""
        self.ages[model] = self.ages.get(model, 0) + 1
        self.edit()

    def _sick(self, model: str, entry: dict[str, Any]) -> dict[str, object]:
        age = str(self.ages.get(model, 0))
        command = [*SICK, *entry["command"][len(FAKE) :], "--orders", str(self._orders(model)), "--age", age]
        state = {"state": entry["state"] | {"timeout": "1s"}} if "state" in entry and self.TIMEOUTS else {}
        return entry | {"command": command, "timeouts": {**entry["timeouts"], **self.TIMEOUTS}} | state

    def _orders(self, model: str) -> Path:
        return self.root / f"{model}.orders"

    def the(self, model: str) -> int:
        """Return the pid of the process of a model, which has nothing to witness from now on."""
        self.witnesses.pop(model, None)
        [pid] = self.processes(model)
        return pid

    def order(self, model: str, *lines: str) -> int:
        """Have a model fall ill; return its pid."""
        pid = self.the(model)
        self._orders(model).write_text("\n".join(lines))
        wait_for(lambda: _hears(pid), SOON, f"{pid} to listen to orders")
        os.kill(pid, signal.SIGUSR1)
        return pid

    def said_of(self, model: str, words: str) -> dict[str, Any]:
        """Wait until the manager has said something of a model, in its log; return the line."""

        def look() -> dict[str, Any] | None:
            lines = [line for line in self.cell_log() if line.get("model") == model]
            return next((line for line in lines if words in str(line)), None)

        found = wait_for(look, SOON, f"the manager to say of {model}: {words}")
        assert found is not None
        return found


class NervousRig(SickRig):
    """Loses patience soon: its environment says when."""

    TIMEOUTS: ClassVar[dict[str, str]] = {"load": "2s", "drain": "8s", "stop": "500ms"}


def _hears(pid: int) -> bool:
    """Return whether a process catches SIGUSR1, which would end it otherwise."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
    return False


#: Does something to a model of a rig.
Act = Callable[[SickRig, str], None]


def signalled(number: signal.Signals) -> Act:
    """Send a signal, as somebody would who knows nothing of us."""

    def act(rig: SickRig, model: str) -> None:
        os.kill(rig.the(model), number)

    return act


def ordered(*lines: str) -> Act:
    """Have the model's server do it by itself."""

    def act(rig: SickRig, model: str) -> None:
        rig.order(model, *lines)

    return act


def stopped(rig: SickRig, model: str) -> None:
    """Stop the process; it never goes on."""
    pause([rig.the(model)])


def stopped_for_a_while(rig: SickRig, model: str) -> None:
    """Stop the process, let the manager look, and let it go on."""
    pid = rig.the(model)
    pause([pid])
    rig.client.get("/api/v1/status")
    go_on([pid])


def orphaned(*lines: str) -> Act:
    """Have the server leave something behind, and kill it."""

    def act(rig: SickRig, model: str) -> None:
        pid = rig.order(model, *lines)
        wait_for(lambda: len(rig.processes(model)) == 2, SOON, "a child")
        os.kill(pid, signal.SIGKILL)

    return act
