"""Writing to the ledger so that a full disk stops nothing: what is resident serves on, and the trouble is told."""

from collections.abc import Awaitable

import structlog

from reconciler.store import AsyncStore, StoreError

log = structlog.get_logger("reconciler.loop")


class Keeper:
    """Tries writes and remembers whether the last one failed."""

    def __init__(self) -> None:
        #: Why the ledger could not be written, until it can be again; for the status.
        self.trouble: str | None = None

    async def keep(self, write: Awaitable[object]) -> bool:
        """Return whether it was written. Trouble is logged when it begins and when it ends, not each time."""
        try:
            await write
        except StoreError as error:
            if self.trouble is None:
                log.error("the ledger cannot be written: the models serve on", error=str(error))
            self.trouble = str(error)
            return False
        if self.trouble is not None:
            log.info("the ledger can be written again")
            self.trouble = None
        return True

    async def catch_up(self, store: AsyncStore) -> list[str]:
        """Have the store look after its file and write what waits; return what became of the file, for people."""
        await self.keep(store.catch_up())
        news = store.news()
        for sentence in news:
            log.error("the ledger was begun anew: the models serve on", what=sentence)
        return news
