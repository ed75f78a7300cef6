"""What the service manager is told while we run: ready, one line of status, that the loop turns, that we stop."""

from collections.abc import Set
from math import inf
from typing import Final

import anyio

from reconciler.board import STOP_SECONDS, Board, Snapshot
from reconciler.core import machine
from reconciler.core.words import counted
from reconciler.host.stop import KILL_SECONDS, SECOND_TERM_SECONDS
from reconciler.manifest.applied import Applied
from reconciler.notify import Notifier
from reconciler.render.units import size

#: Seconds between two messages at least: a busy loop turns many times in that.
PACE: Final = 2.0
#: Of the time the watchdog gives, the share after which it is told again.
SHARE: Final = 0.25
#: Seconds before a message that was not taken is sent again.
AGAIN: Final = 0.5
#: Seconds on top of all deadlines of a stop, once, and for each model: looking, writing down, a busy machine.
MARGIN: Final = 30.0
MODEL_MARGIN: Final = 5.0


class Heartbeat:
    """Speaks for one run. The watchdog hears only of turns that were finished: a loop that hangs is restarted."""

    def __init__(self, notifier: Notifier, board: Board) -> None:
        self._notifier, self._board = notifier, board
        self._serving = anyio.Event()
        self._stopping = False

    def serving(self) -> None:
        """Say that clients can connect."""
        self._serving.set()

    def stopping(self, *, leaves: bool = False) -> None:
        """Tell the service manager that we end, and how long that may take at most. Again is harmless."""
        self._stopping = True
        then = "the models run on" if leaves else "then the models"
        fields = ["STOPPING=1", f"STATUS=stopping: requests end, {then}"]
        if (snapshot := self._board.snapshot) is not None:
            loaded = {i.model for i in snapshot.world.observation.instances}
            fields.append(f"EXTEND_TIMEOUT_USEC={int(stop_seconds(snapshot.applied, loaded) * 1e6)}")
        self._notifier.send(*fields)

    async def run(self) -> None:
        """Speak until we stop. Returns at once where nobody listens."""
        if not self._notifier.wanted:
            return
        await self._serving.wait()
        seen = await self._turned(None)
        watchdog, ready = self._notifier.watchdog, False
        pace = PACE if watchdog is None else min(PACE, watchdog * SHARE)
        while not self._stopping:
            beat = () if watchdog is None else ("WATCHDOG=1",)
            taken = self._notifier.send(*(() if ready else ("READY=1",)), *beat, f"STATUS={line(seen)}")
            ready = ready or taken
            await anyio.sleep(pace if taken else min(pace, AGAIN))
            if taken:
                seen = await self._turned(seen)

    async def _turned(self, seen: Snapshot | None) -> Snapshot:
        """Return what the loop publishes after `seen`; a calm loop is woken where the watchdog cannot wait for it."""
        patience = inf if self._notifier.watchdog is None else self._notifier.watchdog * SHARE
        while (newest := self._board.snapshot) is None or newest is seen:
            with anyio.move_on_after(patience) as waited:
                await self._board.published()
            if waited.cancelled_caught and self._board.wake is not None:
                self._board.wake()
        return newest


def line(snapshot: Snapshot) -> str:
    """Return how things are in one line: models in memory, what they hold, what is being done, what is refused."""
    names = [m.name for m in snapshot.applied.manifest.models]
    ready = {i.model for i in snapshot.world.observation.instances if i.ready}
    account = snapshot.plan.account
    held = (
        f", {size(account.held)} of {size(account.budget)}"
        if None not in (account.held, account.budget)
        else ""
    )
    parts = [f"{len(ready)} of {counted(len(names), 'model')} ready{held}"]
    if isinstance(snapshot.state, machine.Loading | machine.Evicting):
        doing = "loading" if isinstance(snapshot.state, machine.Loading) else "ending"
        parts.append(f"{doing} {snapshot.state.action.model}")
    if snapshot.refused:
        parts.append("the newest manifest has errors: the one before it is in force")
    return "; ".join(parts)


def stop_seconds(applied: Applied, models: Set[str] | None = None) -> float:
    """Return how many seconds the end of all models (None = each of the manifest) may take, one after the other."""
    return MARGIN + sum(
        min(model.drain_timeout, STOP_SECONDS)
        + (applied.states[model.name].timeout if model.name in applied.states else 0.0)
        + model.stop_grace
        + SECOND_TERM_SECONDS
        + KILL_SECONDS
        + MODEL_MARGIN
        for model in applied.manifest.models
        if models is None or model.name in models
    )
