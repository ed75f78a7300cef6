"""The log files while a manager runs: they stay small, and those of models that left the manifest go."""

from collections.abc import Iterable

import anyio
import anyio.to_thread
import structlog

from reconciler.host import Logs
from reconciler.host.log_watch import LogWatch
from reconciler.loop.launches import Launch

log = structlog.get_logger("reconciler.loop")


class LogKeeper:
    """Owned by the loop's task; the logs of models that run are looked at in a thread of its own."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._watch = LogWatch(logs)
        #: The models whose files were kept when others were removed last.
        self._kept: frozenset[str] | None = None

    async def run(self) -> None:
        """Keep the logs of models that run small. Does not return."""
        try:
            await anyio.to_thread.run_sync(
                self._watch.run, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
        finally:
            self._watch.close()

    async def look(self, wanted: Iterable[str], live: Iterable[Launch], *, calm: bool) -> None:
        """Take note of the models of the manifest and of those that run; remove the files of all others.

        Not while a step is performed: a model that is just ending may still be told by its last words.
        """
        running = {launch.model for launch in live}
        self._watch.watch(running)
        keep = frozenset(wanted) | running
        if not calm or keep == self._kept:
            return
        try:
            await anyio.to_thread.run_sync(self._logs.forget, keep)
        except OSError as error:
            log.warning("logs of models that are no more cannot be removed", error=str(error))
        self._kept = keep
