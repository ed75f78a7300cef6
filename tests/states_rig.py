"""Saved states without a server: a saver that does as it is told, and `States` of its own."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from reconciler.core.launch import LaunchSpec
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Saved, Server, Trial
from reconciler.host import Process
from reconciler.loop.launches import Launch
from reconciler.loop.states import States
from reconciler.manifest.applied import StateSettings

MIB: Final = 1 << 20


@dataclass
class FakeSaver:
    """Writes and reads without a server; what it does is data."""

    content: bytes = b"state"
    tokens: int | None = 7
    set_up: str = "setup"
    refusal: str | None = None
    reuses: int | None = None
    fails: Exception | None = None
    hangs: bool = False
    calls: list[str] = field(default_factory=list)

    def refuses(self, spec: LaunchSpec) -> str | None:
        return self.refusal

    def setup(self, spec: LaunchSpec) -> str:
        return self.set_up

    async def _act(self, name: str) -> None:
        self.calls.append(name)
        if self.hangs:
            await anyio.sleep_forever()
        if self.fails is not None:
            raise self.fails

    def other_build(self, was: str, now: str) -> str:
        return f"the engine is {now}, it was {was}"

    async def save(self, server: Server, folder: Path) -> Saved | None:
        if self.content:
            (folder / "a.bin").write_bytes(self.content)
        await self._act("save")
        return Saved(("a.bin",), self.tokens) if self.content else None

    async def restore(self, server: Server, folder: Path, saved: Saved) -> None:
        assert (folder / "a.bin").read_bytes() == self.content
        assert saved == Saved(("a.bin",), self.tokens)
        await self._act("restore")

    async def reused(self, server: Server) -> Trial | None:
        self.calls.append("reused")
        return None if self.reuses is None else Trial(self.reuses, 7)


class FakeEngine(Adapter):
    name = "fake"

    def __init__(self, saver: FakeSaver) -> None:
        self._saver = saver

    def saver(self, spec: LaunchSpec) -> FakeSaver:
        return self._saver


class Rig:
    """`States` of its own, with times that are set, and what was told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.saver = FakeSaver()
        engine = FakeEngine(self.saver)
        monkeypatch.setattr(registry, "get", lambda name: engine)
        self.folder = folder
        self.told: list[tuple[str, str]] = []
        self.now, self.wall = 1000.0, time.time()
        self.states = self.again()

    def again(self, settings: dict[str, StateSettings] | None = None, most: int = 100 * MIB) -> States:
        """Return what a new run of the program has."""
        self.states = States(self.folder, self._tell, clock=lambda: self.now, wall=lambda: self.wall)
        self.states.use(settings or {"m": StateSettings(timeout=5.0)}, most)
        return self.states

    async def _tell(self, kind: str, model: str, reason: str, message: str) -> None:
        self.told.append((reason, message))

    def launch(self, model: str = "m", build: str = "b1", **spec: Any) -> Launch:
        """Return a process of a model."""
        made = LaunchSpec(model, "fake", saves_state=True, **spec)
        launch = Launch("id", model, "d", made, Process(1, 1), 9, 0.0, ready=True)
        launch.build, launch.created = build, self.wall
        return launch

    def written(self, model: str = "m") -> list[str]:
        """Return the files in a model's folder."""
        place = self.folder / model
        return sorted(p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file())

    async def there_and_back(self, **again: Any) -> str:
        """Save, restore into another process; return what was told of that."""
        await self.states.save(self.launch())
        assert self.told[-1][0] == "StateSaved", self.told
        await self.states.restore(self.launch(**again))
        return self.told[-1][1]
