"""Processes that live: those of an earlier run are served with again, and the end of each is noticed."""

from collections.abc import Callable

import anyio.abc

from reconciler.core.launch import LaunchSpec
from reconciler.loop.adopt import tried, used_before
from reconciler.loop.desired import Desired
from reconciler.loop.hands import Hands
from reconciler.loop.journal import Journal
from reconciler.loop.launches import Launch
from reconciler.loop.ledger import Ledger
from reconciler.loop.loading import Loader


class Takeover:
    """Owned by the loop's task. `tasks` are the loop's, from its beginning on."""

    def __init__(
        self,
        hands: Hands,
        loader: Loader,
        ledger: Ledger,
        journal: Journal,
        desired: Desired,
        tasks: Callable[[], anyio.abc.TaskGroup | None],
    ) -> None:
        self._hands, self._loader, self._ledger = hands, loader, ledger
        self._journal, self._desired, self._tasks = journal, desired, tasks

    async def take(self, launch: Launch) -> None:
        """Take over a process of an earlier run, and send requests to it if it is known to answer."""
        entry = self._ledger.entry(launch.model, launch.digest)
        launch.said, launch.build = entry.said, entry.build
        self._hands.launches.add(launch)
        self.watch(launch)
        if launch.ready and not launch.on_trial:
            await self._serve(launch)

    def watch(self, launch: Launch) -> None:
        """Notice when a process ends, and, if it was silent so far, that it answers."""
        tasks = self._tasks()
        assert tasks is not None, "the loop runs"
        tasks.start_soon(self._watch, launch)
        if launch.on_trial:
            tasks.start_soon(self._try, launch)

    async def _watch(self, launch: Launch) -> None:
        launch.exit = await self._hands.host.wait_exit(launch.process)
        launch.exited_at = self._hands.clock()
        launch.exited.set()
        self._hands.changed()

    async def _try(self, launch: Launch) -> None:
        """Serve with a process of an earlier run that was silent at first, once it answers."""
        if await tried(launch, self._loader.http, self._journal):
            await self._serve(launch)
        self._hands.changed()

    async def _serve(self, launch: Launch) -> None:
        """Send requests to a process of an earlier run, if none serves its model; its idle time goes on."""
        spec: LaunchSpec | None = self._desired.applied.launches.get(launch.model)
        if spec is None or self._hands.launches.serving(launch.model) is not None:
            return
        used = used_before(launch, self._desired.spec(launch.model), self._hands.clock())
        await self._loader.serve(launch, spec, used)
