"""A manager with everything a fault can hit: models in every way of life, clients, and a stranger beside it."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from faults.clients import Asked
from faults.wounds import Wound
from hog import Hog
from manager import SOON, Started, process_state, running
from nursery import Nursery
from scripted import ScriptedManager
from support import FAKE, free_port, healthy, wait_for

#: Short, so that a deadline is over within a test; long enough for a machine that is busy with other things.
DEADLINES: Final = {"load": "20s", "drain": "20s", "stop": "5s"}


@dataclass
class Rig(ScriptedManager):
    """One manager on the standard manifest; its `nursery` is one of faults.zygote."""

    #: Requests since the last look of the oracle.
    asked: list[Asked] = field(default_factory=list)
    #: When the manager was away, monotonic seconds; the last has no end while it is.
    away: list[list[float]] = field(default_factory=list)
    #: Models that must live on as they are, with the pid they had.
    witnesses: dict[str, int] = field(default_factory=dict)
    stranger: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.wound = self.root / "wound.json"
        #: By how many seconds its wall clock is off: see clock.py.
        self.clock = self.root / "clock"
        #: Files that hold models back: see `hold` and `let_go`.
        self.gates = self.root / "gates"
        self.gates.mkdir(parents=True, exist_ok=True)
        #: Programs that took the memory of a model that has gone, so that it is not seen to be back.
        self.hogs: list[Hog] = []
        #: The lease that a batch job was given.
        self.lease = ""
        #: Where in the log the current cell begins, in characters.
        self.cell_began = 0
        self._armed_at = 0.0

    # -- the manifest ---------------------------------------------------------------------------------------------

    def hold(self, model: str) -> None:
        """Have `model` answer nothing, and its streams stand still, until `let_go`."""
        self._hold(model).touch()

    def let_go(self, model: str) -> None:
        """Let `model` answer, and become ready if its load was held; what took its memory gives it back."""
        self._end_hogs()
        self._hold(model).unlink(missing_ok=True)
        self._gate(model).touch()

    def _end_hogs(self) -> None:
        while self.hogs:
            self.hogs.pop().__exit__(None, None, None)

    def _hold(self, model: str) -> Path:
        return self.gates / f"{model}.hold"

    def _gate(self, model: str) -> Path:
        return self.gates / f"{model}.gate"

    def held(self, model: str, *options: str, size: int = 50, **keys: Any) -> dict[str, object]:
        """Return the entry of a model that streams, and that `hold` holds back."""
        words = ("--stream", "20", "--delay", "0.01", "--hold", str(self._hold(model)), *options)
        return self.scripted(model, *words, size=size, **({"timeouts": DEADLINES} | keys))

    def standard(self) -> dict[str, dict[str, object]]:
        """Return the models of the standard manifest, all of which fit together."""
        held = self.held
        state = {"save": "/save", "load": "/load", "timeout": "15s"}
        naps = self.sleepy("naps", "--hold", str(self._hold("naps")), hold=60, timeouts=DEADLINES)
        return {
            "pin": held("pin", residency="pinned"),
            "chat": held("chat"),
            "slow": held("slow", "--load-until", str(self._gate("slow"))),
            "deaf": held("deaf", "--ignore-term", timeouts={**DEADLINES, "stop": "1s"}),
            "big": held(
                "big", "--rss-mib", "200", "--ignore-term", size=260, timeouts={**DEADLINES, "stop": "1s"}
            ),
            "saves": held("saves", state=state),
            "naps": naps | {"idle_ttl": "0.1s"},
        }

    def use(self, models: dict[str, dict[str, object]] | None = None, memory: int = 2000) -> None:
        """Save a manifest of these models, or of the standard ones."""
        self.write(models if models is not None else self.standard(), memory=memory, prewarm="off")

    def edit(self, models: dict[str, dict[str, object]] | None = None) -> None:
        """Save a manifest as `use` does, and wait until it is in force."""
        generation = self.status()["manifest"]["generation"]
        self.use(models)
        wait_for(lambda: self.status()["manifest"]["generation"] > generation, SOON, "the other manifest")

    def looked_at(self) -> None:
        """Have the manager look at all there is once more, and wait until it has."""
        generation = self.status()["manifest"]["generation"]
        self.use(memory=2001 if "2000MiB" in self.file.read_text() else 2000)
        wait_for(lambda: self.status()["manifest"]["generation"] > generation, SOON, "another look")

    def edited(self, model: str, *words: str) -> dict[str, dict[str, object]]:
        """Return the standard models, one of them with more words on its command line."""
        models = self.standard()
        command = models[model]["command"]
        assert isinstance(command, list)
        return models | {model: models[model] | {"command": [*command, *words]}}

    # -- the manager ----------------------------------------------------------------------------------------------

    def launch(self, *options: str) -> Started:
        """Start the program in a fork of the nursery."""
        if self.nursery is None:
            return super().launch(*options)
        command = ["reconcile", str(self.manifests), "--state-dir", str(self.state_dir), *options]
        # PYTHONPATH is ours, and no model's.
        env = {key: value for key, value in {**os.environ, **self.env}.items() if key != "PYTHONPATH"}
        process = self.nursery.start(command, env, self.output, wound=str(self.wound))
        self.others.append(process)
        return process

    def start(self, *options: str) -> Self:
        """Start the manager and return once it has published what it sees."""
        super().start(*options)
        self.back()
        return self

    def gone(self, since: float | None = None) -> None:
        """Note that from now on, or from `since` on (monotonic seconds), nobody answers."""
        if not self.away or len(self.away[-1]) == 2:
            self.away.append([time.monotonic() if since is None else since])

    def back(self) -> None:
        """Note that the manager answers again."""
        if self.away and len(self.away[-1]) == 1:
            self.away[-1].append(time.monotonic())

    def kill(self) -> None:
        """End the manager as a crash would."""
        self.gone()
        super().kill()

    def wait_dead(self) -> None:
        """Wait until the manager has died of an armed wound; its clients are cut in that moment."""
        assert self.process is not None
        self.process.wait(SOON)
        self.gone(since=self._armed_at)

    def arm(self, wound: Wound) -> None:
        """Have the program die at a point inside it: see wounds.py."""
        self._armed_at = time.monotonic()
        wound.arm(self.wound)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_hogs()  # a cell that fails lets nothing go
        super().__exit__(kind, error, trace)

    # -- what is asked --------------------------------------------------------------------------------------------

    def asks(self, model: str, *, stream: bool = False) -> Asked:
        """Send a request in the background; the oracle looks at how it ends."""
        one = Asked(self.url, model, stream=stream)
        self.asked.append(one)
        return one

    def loaded(self, *models: str) -> None:
        """Have these models loaded, and stay as they are until the end of the cell."""
        for model in models:
            self.asks(model).answered()
            self.witness(model)

    def witness(self, model: str) -> None:
        """Have the oracle see to it that this process of a model lives on."""
        self.witnesses[model] = int(self.wait_model(model, state="ready")["pid"])

    def evict(self, model: str) -> None:
        """Have a person ask for a model to go; it is begun when this returns, not over."""
        answer = self.client.post(f"/api/v1/models/{model}/evict")
        assert answer.status_code == 202, answer.text
        self.witnesses.pop(model, None)

    # -- from cell to cell ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a cell: nothing is loaded but the pin, which is the first witness."""
        self.wound.unlink(missing_ok=True)
        self.clock.unlink(missing_ok=True)
        self.asked, self.away = [], []
        self.cell_began = len(self.output.read_text())
        self.witnesses = {}
        self.witness("pin")

    def rest(self) -> None:
        """End a cell: open what waits, and unload what it loaded."""
        self.let_go("pin")
        for gate in self.gates.iterdir():
            gate.unlink()
        if self.file.read_text() != self.text(self.standard(), memory=2000, prewarm="off"):
            self.edit()
        for model in self.wait_calm()["models"]:
            if model["name"] != "pin" and model["pid"] is not None:
                self.evict(model["name"])
                wait_for(lambda name=model["name"]: not self.processes(name), SOON, "an unloaded model")  # type: ignore[misc]
                self.client.post(f"/api/v1/models/{model['name']}/forget")
        self.wait_calm()

    def cell_log(self) -> list[dict[str, Any]]:
        """Return the log lines of the cell so far."""
        lines = self.output.read_text()[self.cell_began :].splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@contextmanager
def stranger(port: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A model server that a person started, on a free port if no other is named: same program, no mark of ours."""
    port = port or free_port()
    with subprocess.Popen([*FAKE, "--port", str(port)], stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: healthy(port), SOON, "a server started by hand")
            yield process
        finally:
            process.kill()  # also after a failure: else the end of this block waits for it


@contextmanager
def standing(
    root: Path, nursery: Nursery | None, kind: type[Rig] = Rig, env: Mapping[str, str] | None = None
) -> Iterator[Rig]:
    """A rig that runs, with the pin loaded and a stranger beside it."""
    with stranger() as other, kind(root, nursery=nursery, stranger=other, env=env or {}) as rig:
        rig.use()
        rig.start()
        rig.wait_ready("pin")
        rig.wait_calm()
        yield rig


def unharmed(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a stranger runs, and was not stopped."""
    return running(process.pid) and process_state(process.pid) in ("S", "R", "D")
