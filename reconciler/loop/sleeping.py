"""Having a server give its memory back without ending, and take it again. What it really gives back is measured."""

from typing import Final

import anyio
import anyio.to_thread
import httpx
import structlog

from reconciler.core.crashes import Ending, FailureKind, kind_of
from reconciler.core.launch import LaunchSpec
from reconciler.core.machine import SLEEP_SECONDS, Exited, expected
from reconciler.core.words import size
from reconciler.engines.base import EngineError, Server, Sleeper
from reconciler.excerpt import excerpt, secrets_of
from reconciler.loop import careful
from reconciler.loop.hands import Hands
from reconciler.loop.launches import Launch

#: Seconds a server may take to give its memory back while a request waits: to stop it may be quicker.
WAITED_SECONDS: Final = 10.0
#: After it has said that it sleeps: seconds in which the memory must be seen to be back, and between two looks.
SEEN_SECONDS: Final = 1.0
SEEN_PACE: Final = 0.1
#: Seconds in which the end of a process is noticed that has broken a connection off by it.
ENDED_SECONDS: Final = 0.5
#: Share of what it held that a process must have given back; otherwise it does better to end.
WORTH: Final = 0.1
#: Share of what it gave back that one has to have taken again when it answers; otherwise it has not woken.
TAKEN: Final = 0.5
#: Bytes given back from which on that is asked: less comes and goes by itself.
NOTICEABLE: Final = 64 << 20

log = structlog.get_logger("reconciler.loop")


class Sleeping:
    """Puts servers to sleep and wakes them, one at a time (the state machine sees to that)."""

    def __init__(self, hands: Hands, http: httpx.AsyncClient) -> None:
        self._hands = hands
        self._http = http
        #: The sleep that is being asked for, when that began, and how many seconds it may take.
        self._scope: anyio.CancelScope | None = None
        self._began, self._limit = 0.0, SLEEP_SECONDS
        self._given_up = False

    def hurry(self) -> None:
        """Let a sleep that is being asked for take a short time in all: somebody waits for what it gives back."""
        if self._scope is not None and self._limit > WAITED_SECONDS:
            self._limit = WAITED_SECONDS
            self._scope.deadline = self._began + WAITED_SECONDS

    def give_up(self) -> None:
        """Have a server that is being asked to sleep stopped instead; that is not held against its settings."""
        if self._scope is not None:
            self._given_up = True
            self._scope.cancel()

    async def sleep(self, launch: Launch) -> Exited | None:
        """Have a server that serves nobody any more give its memory back; None = it did not, and is to be stopped.

        Such settings are not asked again in this run, unless somebody else ended it. A server that sleeps is on record
        as that.
        """
        spec = launch.spec
        sleeper = careful.get(spec.engine).sleeper(spec) if spec is not None else None
        if spec is None or sleeper is None:
            self._vain(launch, "its engine cannot wake it")
            return None
        available = await self._hands.observer.available()
        await self._hands.observer.measure(launch, self._hands.clock())
        before, committed = launch.holds, launch.committed
        # From here on nobody knows how far one is that is half asleep. Where that cannot be written down it is stopped.
        if not await self._hands.record(launch, "sleeping"):
            return None
        why = await self._ask(launch, spec, sleeper)
        if self._given_up:
            return None
        freed = 0 if why or before is None else await self._freed(launch, before)
        if not why and (before is None or freed <= 0 or freed < before * WORTH):
            held = "what it held cannot be read" if before is None else f"of {size(before)}"
            why = f"it gave {size(max(0, freed))} back, {held}"
        if why or launch.exit is not None:
            if await self.ended_by_others(launch):
                log.warning("it was ended while it was to sleep", model=launch.model, ended=str(launch.exit))
            else:
                self._vain(launch, why or "it ended")
            return None
        await self._lie_down(launch, committed)
        return Exited(expected(available, freed))

    async def _ask(self, launch: Launch, spec: LaunchSpec, sleeper: Sleeper) -> str:
        """Ask it to sleep; return why it did not, or ""."""
        self._began, self._limit, self._given_up = anyio.current_time(), SLEEP_SECONDS, False
        self._scope = anyio.CancelScope(deadline=self._began + SLEEP_SECONDS)
        try:
            with self._scope:
                await sleeper.sleep(Server(spec, launch.base_url, self._http, launch.key))
                return ""
        except EngineError as error:
            return excerpt(str(error), secrets_of(spec))
        finally:
            self._scope = None
        return f"it took more than {self._limit:g} s"

    async def _freed(self, launch: Launch, before: int) -> int:
        """Return the bytes a server has given back once they are enough, or what there is when the time is over."""
        freed = 0
        with anyio.move_on_after(SEEN_SECONDS):
            while True:
                await self._hands.observer.measure(launch, self._hands.clock())
                freed = 0 if launch.holds is None else before - launch.holds
                if freed >= before * WORTH:
                    break
                await anyio.sleep(SEEN_PACE)
        return freed

    async def _lie_down(self, launch: Launch, before: int | None) -> None:
        launch.kept = launch.committed
        launch.gave_back = None if before is None or launch.kept is None else before - launch.kept
        launch.ready, launch.asleep, launch.stopping = False, True, False
        self._hands.observer.evicted()
        await self._hands.record(launch)

    async def ended_by_others(self, launch: Launch) -> bool:
        """Return whether somebody, or the kernel, ended a process that broke off: that says nothing of its settings.

        Of one that an earlier run had started nobody knows; that is not held against it either.
        """
        with anyio.move_on_after(ENDED_SECONDS):
            await launch.exited.wait()
        ended = launch.exit
        if ended is None:
            return False
        unknown = ended.code is None and ended.signal is None
        return unknown or kind_of(Ending(ended.code, ended.signal, ready=True)) is FailureKind.KILLED

    def no_more(self, launch: Launch) -> None:
        """Ask these settings not to sleep again in this run."""
        self._hands.launches.no_sleep(launch.model, launch.digest)

    def _vain(self, launch: Launch, why: str) -> None:
        self.no_more(launch)
        log.warning("it is stopped instead of sleeping, from now on", model=launch.model, why=why)

    async def wake(self, launch: Launch, spec: LaunchSpec) -> None:
        """Have a server take its memory again; it is to be probed then. Raises EngineError.

        From here on it counts as being loaded, on record too: nobody knows how far one is that is half awake.
        """
        launch.asleep, launch.spec = False, spec
        await self._hands.record(launch, "waking")
        sleeper = careful.get(spec.engine).sleeper(spec)
        if sleeper is None:
            raise EngineError("its engine cannot wake it")
        launch.key = await anyio.to_thread.run_sync(careful.get(spec.engine).api_key, spec)
        await sleeper.wake(Server(spec, launch.base_url, self._http, launch.key))

    async def lied(self, launch: Launch, spec: LaunchSpec) -> str:
        """Return why one that answers after its waking has not woken, or "": it took next to nothing again.

        Some servers say yes to everything, and answer probes. Such settings are not asked to sleep again in this run.
        """
        sleeper, gave, kept = careful.get(spec.engine).sleeper(spec), launch.gave_back, launch.kept
        if sleeper is None or sleeper.wakes_later or gave is None or kept is None or gave < NOTICEABLE:
            return ""
        await self._hands.observer.measure(launch, self._hands.clock())
        if launch.committed is None or launch.committed - kept >= gave * TAKEN:
            return ""
        took = size(max(0, launch.committed - kept))
        why = f"it says that it woke, and has taken {took} of the {size(gave)} that it gave back"
        self._vain(launch, why)
        return why
