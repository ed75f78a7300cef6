"""An engine of one file, which the program knows nothing of: `command` that can sleep, and has jobs."""

from reconciler.core.launch import LaunchSpec
from reconciler.engines.base import EngineError, Server, Sleeper
from reconciler.engines.command import CommandEngine
from reconciler.engines.requests import get, post


class Naps(Sleeper):
    """What the scripted server does at /sleep and /wake_up."""

    async def sleep(self, server: Server) -> None:
        """Have its memory freed."""
        await post(server, "/sleep")

    async def wake(self, server: Server) -> None:
        """Have it taken again."""
        await post(server, "/wake_up")


class Scripted(CommandEngine):
    """Starts tests/fake_engine.py; with `--job` on its command line it has jobs."""

    name = "scripted"

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """Return how it sleeps."""
        return Naps()

    def has_jobs(self, spec: LaunchSpec) -> bool:
        """Say whether it works on after its answers."""
        return "--job" in spec.command

    async def jobs(self, server: Server) -> int | None:
        """Return what it works on and has in line."""
        try:
            queue = await get(server, "/queue")
        except EngineError:
            return None
        return sum(len(part) for part in queue.values())


ENGINE = Scripted()
