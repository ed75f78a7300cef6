"""What a soak is judged by from outside: the control group's own figures, and what each model's processes hold."""

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from manager import Background, Manager
from small_machine import SmallMachine

KIB = 1024
MIB = 1 << 20
#: A file mapped by fewer bytes than this is a library.
_OWN = ("RssAnon", "RssShmem")


@dataclass
class Held:
    """One model, in bytes: what it was expected to hold, the most it was seen to hold, and what it was charged."""

    expected: int | None = None
    measured: int = 0
    charged: int | None = None


class Watcher(Background):
    """Looks every 50 ms, independently of the manager; twice a second also at what every model holds."""

    EVERY = 0.05
    MODELS_EVERY = 10

    def __init__(self, machine: SmallMachine, manager: Manager) -> None:
        super().__init__()
        self.machine, self.manager = machine, manager
        #: Most bytes seen: all that is charged, what cannot be dropped, and that together with mapped pages.
        self.most_used = self.most_anonymous = self.most_needed = 0
        self.models: dict[str, Held] = {}
        self.looks = 0
        self._over = threading.Event()

    def work(self) -> None:
        while not self._over.wait(self.EVERY):
            anonymous, mapped = self.machine.anonymous, self._mapped()
            self.most_used = max(self.most_used, self.machine.used)
            self.most_anonymous = max(self.most_anonymous, anonymous)
            self.most_needed = max(self.most_needed, anonymous + mapped)
            if self.looks % self.MODELS_EVERY == 0:
                self._look_at_models()
            self.looks += 1

    @property
    def faults(self) -> int:
        """How many pages had to be read from disk because somebody touched them."""
        return self._fields("memory.stat")["total_pgmajfault" if self.machine.v1 else "pgmajfault"]

    def _mapped(self) -> int:
        return self._fields("memory.stat")["total_mapped_file" if self.machine.v1 else "file_mapped"]

    def _fields(self, name: str) -> dict[str, int]:
        lines = (self.machine.folder / name).read_text().splitlines()
        return {key: int(value) for key, value in map(str.split, lines)}

    def _look_at_models(self) -> None:
        for model in self.manager.status()["models"]:
            held = self.models.setdefault(model["name"], Held())
            if model["memory"]["estimate"] is not None:
                held.expected = model["memory"]["estimate"]["steady"]
            elif held.expected is None:
                held.expected = model["size"]  # before it was ever measured that is what is stated
            if model["pid"] is not None and model["state"] == "ready":
                held.measured = max(held.measured, resident(model["pid"]))
                held.charged = model["size"]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self.finish()


def resident(pid: int) -> int:
    """Return the bytes a process has in memory, those of libraries left out; 0 if it is gone."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in status if ":" in line)
        if "RssAnon" in fields:
            own = sum(int(fields[key].split()[0]) * KIB for key in _OWN)
            return own + _weights(Path(f"/proc/{pid}/smaps").read_text())
    return 0


def _weights(smaps: str) -> int:
    total, weights = 0, False
    for line in smaps.splitlines():
        if "-" in line.split(" ", 1)[0]:
            weights = line.endswith(".gguf")
        elif weights and line.startswith("Rss:"):
            total += int(line.split()[1]) * KIB
    return total
