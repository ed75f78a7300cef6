"""Writing to the ledger so that a full disk stops nothing: what is resident serves on, and the trouble is told."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from reconciler.store import AsyncStore, StoreError

#: Seconds without a write that failed after which log and status say that the trouble is over. On a full disk a page
#: comes free now and then, which takes a row or two, and a turn with nothing to write succeeds as well: the trouble
#: goes on. More than `tally.PACE`, after which the last one tries again.
CALM_SECONDS: Final = 10.0

log = structlog.get_logger("reconciler.loop")


class Keeper:
    """Tries writes and remembers whether one failed a moment ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Why the last one failed of all writes, None when that is over; for the status.
        self.trouble: str | None = None
        self._failed_at = float("-inf")

    async def keep(self, write: Awaitable[object]) -> bool:
        """Return whether it was written. Trouble is logged when it begins and once it is over, not each time."""
        try:
            await write
        except StoreError as error:
            self.failed(error)
            return False
        if self.trouble is not None and self._clock() - self._failed_at >= CALM_SECONDS:
            log.info("the ledger can be written again")
            self.trouble = None
        return True

    def failed(self, error: StoreError) -> None:
        """Note that a write failed."""
        if self.trouble is None:
            log.error("the ledger cannot be written: the models serve on", error=str(error))
        self.trouble, self._failed_at = str(error), self._clock()

    async def catch_up(self, store: AsyncStore) -> list[str]:
        """Have the store look after its file and write what waits; return what became of the file, for people."""
        await self.keep(store.catch_up())
        news = store.news()
        for sentence in news:
            log.error("the ledger was begun anew: the models serve on", what=sentence)
        return news
