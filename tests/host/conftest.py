"""A host of our own for each test, which leaves nothing running."""

import itertools
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
import pytest

from reconciler.engines.base import Command
from reconciler.host import Host, Process
from support import FAKE, free_port, healthy, wait_for_async


@dataclass(frozen=True)
class Launched:
    """One process that a test started."""

    process: Process
    launch_id: str
    port: int


@dataclass
class Bench:
    """Starts things and remembers them."""

    host: Host
    state_dir: Path
    launched: list[Launched] = field(default_factory=list)
    numbers: Iterable[int] = field(default_factory=itertools.count)

    async def start(self, *argv: str, model: str = "m", cwd: str = "/", **env: str) -> Launched:
        """Start any argv; `{port}` in it becomes a free port."""
        port = free_port()
        launch_id = f"launch-{next(iter(self.numbers))}"
        command = Command(tuple(a.replace("{port}", str(port)) for a in argv), cwd, env)
        process = await self.host.start(command, model=model, launch_id=launch_id, port=port)
        self.launched.append(Launched(process, launch_id, port))
        return self.launched[-1]

    async def serve(self, *options: str, model: str = "m", **env: str) -> Launched:
        """Start a fake engine and wait until it answers."""
        launched = await self.start(*FAKE, "--port", "{port}", *options, model=model, **env)
        await self.answers(launched.port)
        return launched

    async def shell(self, script: str) -> Launched:
        """Start `sh -c script`, in which FAKE stands for a fake engine with its port; wait until that answers."""
        launched = await self.start("sh", "-c", script.replace("FAKE", " ".join((*FAKE, "--port {port}"))))
        await self.answers(launched.port)
        return launched

    async def answers(self, port: int) -> None:
        """Wait until a fake engine on `port` is ready."""

        async def ask() -> bool:
            return await anyio.to_thread.run_sync(healthy, port)

        await wait_for_async(ask, 10, f"a ready engine on port {port}")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A host with state in a directory of its own; whatever it started is ended afterwards."""
    owner = f"test-{tmp_path}"
    bench = Bench(Host(tmp_path / "state", owner), tmp_path / "state")
    yield bench
    for launched in bench.launched:
        await bench.host.stop(launched.process, launched.launch_id, grace=0)
    bench.host.close()
