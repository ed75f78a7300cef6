"""The models of a soak: generated weights mapped and read, a shared file, a growing engine, one that can never fit."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from support import FAKE
from tiny_gguf import write_llama

MIB: Final = 1 << 20
#: Priorities, and after what time idle a model of that priority leaves: what outranks others has to, or those others
#: would wait for it until their queue's time is over.
PRIORITIES: Final[Mapping[str, str | None]] = {"medium": None, "high": "2s", "critical": "1s"}
#: Longer than any wait that is not a fault.
QUEUE: Final = "40s"


@dataclass(frozen=True)
class Model:
    """One model of the layout. `weights` names a file; two models may name the same."""

    name: str
    #: MiB of weights; of a fake engine what its manifest states.
    size: int
    weights: str | None = None
    role: str = "chat"
    mode: str = "mmap"
    context: int = 512
    slots: int = 1
    pinned: bool = False
    priority: str = "medium"
    #: MiB that a fake engine holds at first, and those that it takes once it is ready, beyond what it states.
    holds: int = 0
    grows: int = 0

    def entry(self, files: Mapping[str, Path]) -> dict[str, object]:
        """Return its part of the manifest."""
        entry: dict[str, object] = {
            "role": self.role,
            "residency": "pinned" if self.pinned else "on_demand",
            "priority": self.priority,
            "queue": {"timeout": QUEUE},
        }
        if (idle := PRIORITIES[self.priority]) is not None:
            entry["idle_ttl"] = idle
        return entry | (self._fake() if self.weights is None else self._llama(files[self.weights]))

    def _fake(self) -> dict[str, object]:
        options = ["--rss-mib", str(self.holds), "--grow-mib", str(self.grows), "--load", "0.3"]
        command = [*FAKE, "--port", "${port}", *options]
        return {"engine": "command", "command": command, "memory": {"steady": f"{self.size}MiB"}}

    def _llama(self, file: Path) -> dict[str, object]:
        return {
            "engine": "llama.cpp",
            "weights": str(file),
            "context": {"max_tokens": self.context, "slots": self.slots},
            "memory": {"mode": self.mode},
            # One thread: two of them wait for each other hundreds of times a token, long on a busy machine. How vectors
            # are made of tokens is not said in the file.
            "args": ["-t", "1", *(["--pooling", "mean"] if self.role == "embedding" else [])],
        }


@dataclass
class Layout:
    """All models of a soak and the machine they are on; priorities change while it runs."""

    #: MiB of the machine, and of that what is kept for the system.
    limit: int
    reserve: int
    models: dict[str, Model]
    #: Asked for now and then, and always to be refused.
    hopeless: str
    files: dict[str, Path] = field(default_factory=dict)

    def write_weights(self, folder: Path) -> None:
        """Write the files below `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        sizes = {m.weights: m.size for m in self.models.values() if m.weights is not None}
        for number, (name, size) in enumerate(sorted(sizes.items())):
            self.files[name] = write_llama(folder / f"{name}.gguf", pad_mib=size, seed=number)

    def forget_pages(self) -> None:
        """Have the files leave the page cache, whoever read them: the machine that reads them next is charged."""
        for path in self.files.values():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def entries(self) -> dict[str, dict[str, object]]:
        """Return the models as the manifest states them now."""
        return {name: model.entry(self.files) for name, model in sorted(self.models.items())}

    def reprioritise(self, name: str, priority: str) -> None:
        """Change one model's priority; it is in force once the manifest is saved."""
        self.models[name] = replace(self.models[name], priority=priority)

    @property
    def free(self) -> list[str]:
        """Models that come and go, sorted."""
        return sorted(n for n, m in self.models.items() if not m.pinned and n != self.hopeless)

    @property
    def pinned(self) -> list[str]:
        """Models that stay, sorted."""
        return sorted(n for n, m in self.models.items() if m.pinned)


def _layout(limit: int, reserve: int, *models: Model) -> Layout:
    hopeless = Model("hopeless", size=limit, holds=1)
    return Layout(limit, reserve, {m.name: m for m in (*models, hopeless)}, hopeless.name)


def large() -> Layout:
    """Return eight models that together need 5 GiB, on a machine of 2 GiB."""
    return _layout(
        2048,
        128,
        Model("pin", 100, "pin", role="embedding", pinned=True),
        Model("mapped", 900, "mapped", context=1024),
        Model("read", 850, "read", mode="none"),
        Model("slots", 700, "slots", context=1024, slots=4),
        Model("twin-a", 600, "twin", context=512),
        Model("twin-b", 600, "twin", context=4096, slots=2),
        Model("quick", 350, "quick", mode="none", priority="high"),
        Model("grower", 150, holds=100, grows=150),
    )


def small() -> Layout:
    """Return six models that together need 1 GiB, on a machine of 480 MiB: each is loaded in tenths of seconds."""
    return _layout(
        480,
        32,
        Model("pin", 8, "pin", role="embedding", pinned=True),
        Model("mapped", 190, "mapped"),
        Model("read", 150, "read", mode="none"),
        Model("twin-a", 130, "twin"),
        Model("twin-b", 130, "twin", context=1024, slots=2),
        Model("grower", 60, holds=40, grows=60),
    )
