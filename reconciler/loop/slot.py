"""The one slot for actions: the machine's state, the step in flight, and what it leaves behind when it ends."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import anyio
import anyio.abc
import structlog

from reconciler.core import machine
from reconciler.loop.hands import Outcome

SETTLE_POLL: Final = 0.02

log = structlog.get_logger("reconciler.loop")


class Slot:
    """Holds at most one action. The loop's task begins and takes; the action's own task only leaves outcomes."""

    def __init__(self, wake: Callable[[], None], available: Callable[[], Awaitable[int | None]]) -> None:
        self.state: machine.State = machine.Idle()
        self._available = available
        self._wake = wake
        self._outcomes: deque[Outcome] = deque()
        self._scope: anyio.CancelScope | None = None
        self._enough_room = False

    @property
    def idle(self) -> bool:
        """Whether an action may begin."""
        return isinstance(self.state, machine.Idle)

    def begin(
        self,
        state: machine.Evicting | machine.Loading,
        work: Callable[[], Awaitable[Outcome]],
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        """Enter `state` and do its work in a task of its own."""
        self.state = state
        tasks.start_soon(self._perform, work)

    def cancel_load(self) -> None:
        """Have a load in flight given up: what it started is ended, and that is its outcome."""
        if isinstance(self.state, machine.Loading) and self._scope is not None:
            self._scope.cancel()

    def goes_on(self, at: float, patience: float, now: float) -> None:
        """Note when a load in flight was last seen to go on; without more of that it ends `patience` seconds later."""
        if isinstance(self.state, machine.Loading):
            self.state = machine.advance(self.state, machine.Progressed(at, patience), now)

    def limits(self, drain: float, grace: float, now: float) -> None:
        """Note what an eviction in flight may take now, in seconds."""
        if isinstance(self.state, machine.Evicting):
            self.state = machine.advance(self.state, machine.Limits(drain, grace), now)

    def enough_room(self) -> None:
        """Say while settling that what is free now is enough for what comes next: other programs may take the rest."""
        self._enough_room = True

    def halt(self, reason: str, now: float) -> None:
        """Begin nothing more."""
        self.state = machine.advance(self.state, machine.Halt(reason), now)

    def take(self, now: float) -> Iterator[tuple[machine.State, Outcome]]:
        """Advance by each outcome that was left, and yield it with the state it ended."""
        while self._outcomes:
            outcome, ended = self._outcomes.popleft(), self.state
            self.state = machine.advance(ended, outcome.event, now)
            yield ended, outcome

    async def _perform(self, work: Callable[[], Awaitable[Outcome]]) -> None:
        outcome = Outcome(machine.Failed(None), 0.0)
        with anyio.CancelScope() as self._scope:
            outcome = await work()
        self._scope = None
        self._leave(outcome)
        if isinstance(outcome.event, machine.Exited | machine.Failed):
            self._leave(Outcome(await self._settle(outcome.event.expect), 0.0))

    def _leave(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._wake()

    async def _settle(self, expect: int | None) -> machine.Event:
        """Wait until the memory of what was stopped is seen to be back, or the time for that is over."""
        if expect is None:
            return machine.Deadline()
        self._enough_room = False
        with anyio.move_on_after(machine.SETTLE_SECONDS):
            while not self._enough_room:
                if machine.recovered(expect, await self._available()):
                    break
                await anyio.sleep(SETTLE_POLL)
            return machine.Recovered()
        log.warning("memory did not come back in time", seconds=machine.SETTLE_SECONDS)
        return machine.Deadline()
