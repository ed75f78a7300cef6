"""How vLLM gives memory back without ending. Its addresses for this are there in development mode only."""

from reconciler.core.launch import Sleep
from reconciler.engines.base import Server, Sleeper
from reconciler.engines.requests import post


class VllmSleeper(Sleeper):
    """Light: the weights go to host memory. Deep: they are dropped, and read from disk again."""

    async def sleep(self, server: Server) -> None:
        """Have the pool and the weights given back. Raises EngineError."""
        level = 1 if server.spec.sleep is Sleep.LIGHT else 2
        await post(server, f"/sleep?level={level}")

    async def wake(self, server: Server) -> None:
        """Have it take its memory again, and its weights if they were dropped. Raises EngineError."""
        if server.spec.sleep is Sleep.LIGHT:
            await post(server, "/wake_up")
            return
        await post(server, "/wake_up?tags=weights")
        await post(server, "/collective_rpc", {"method": "reload_weights"})
        await post(server, "/wake_up?tags=kv_cache")
