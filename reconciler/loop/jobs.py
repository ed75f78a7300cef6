"""Work that goes on after its request was answered: an engine that knows of it is asked how much there is."""

from typing import Final

import anyio
import httpx
import structlog

from reconciler.engines.base import Server
from reconciler.loop import careful
from reconciler.loop.hands import Hands
from reconciler.loop.launches import Launch

#: Seconds between two questions, and while a drain waits for the answer 0.
PACE: Final = 1.0
DRAIN_PACE: Final = 0.2
#: Of a server that is slow to say it: how many times what the answer took passes until it is asked again, at least.
SLOW_SHARE: Final = 9.0
#: Seconds for one answer.
ANSWER_SECONDS: Final = 2.0
#: A server that says nothing for so long has, as far as anybody knows, nothing to do.
SILENCE_SECONDS: Final = 60.0

log = structlog.get_logger("reconciler.loop")


class Jobs:
    """Asks the servers of models that serve, and notes the answers in the lease book. Never on a request's way."""

    def __init__(self, hands: Hands, http: httpx.AsyncClient) -> None:
        self._hands = hands
        self._http = http
        #: Launches of which an answer is waited for.
        self._asking: set[str] = set()
        #: When each launch with jobs said how many.
        self._heard: dict[str, float] = {}
        #: When each launch that is slow to answer is asked again.
        self._next: dict[str, float] = {}

    async def run(self) -> None:
        """Ask all that have to be asked, over and over."""
        async with anyio.create_task_group() as tasks:
            while True:
                for launch in self._hands.launches:
                    if self._due(launch):
                        tasks.start_soon(self._ask_once, launch)
                await anyio.sleep(PACE)

    async def attend(self, launch: Launch) -> None:
        """Ask one server at a short pace until cancelled; for a drain, which waits for its end."""
        while self.has(launch):
            await anyio.sleep(DRAIN_PACE)
            await self.ask(launch)

    def has(self, launch: Launch) -> bool:
        """Return whether a server may go on working after its answers."""
        return launch.spec is not None and careful.get(launch.spec.engine).has_jobs(launch.spec)

    async def ask(self, launch: Launch) -> int:
        """Return how many jobs a server has now, as it says itself; where it says nothing, as many as it had."""
        if launch.spec is None or not self.has(launch):
            return 0
        server = Server(launch.spec, launch.base_url, self._http, launch.key)
        count: int | None = None
        with anyio.move_on_after(ANSWER_SECONDS):
            count = await careful.get(launch.spec.engine).jobs(server)
        if self._hands.launches.serving(launch.model) is not launch:
            return 0
        known, now = self._hands.book.works_on(launch.model), self._hands.clock()
        if count is None:
            silent = now - self._heard.setdefault(launch.id, now) >= SILENCE_SECONDS
            count = 0 if silent else known
            if known and silent:
                log.warning(
                    "its jobs are not waited for: it does not say how many it has", model=launch.model
                )
        else:
            self._heard[launch.id] = now
        self._hands.book.jobs(launch.model, count)
        return count

    def _due(self, launch: Launch) -> bool:
        """Whether a server is to be asked now: it serves, and is not asked already, nor was it slow a moment ago."""
        if launch.id in self._asking or self._hands.launches.serving(launch.model) is not launch:
            return False
        return self._hands.clock() >= self._next.get(launch.id, float("-inf"))

    async def _ask_once(self, launch: Launch) -> None:
        self._asking.add(launch.id)
        began = self._hands.clock()
        try:
            await self.ask(launch)
        finally:
            self._asking.discard(launch.id)
            ended = self._hands.clock()
            self._next[launch.id] = ended + (ended - began) * SLOW_SHARE
            if self._hands.launches.serving(launch.model) is not launch:
                self._heard.pop(launch.id, None)
                self._next.pop(launch.id, None)
