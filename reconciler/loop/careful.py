"""The engines as the loop asks them: what an adapter raises against its promise is logged, and ends one step at most.

Adapters are written by many, and read what servers of others answer. None of them may be able to stop all models.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeVar

import httpx
import structlog

from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Said
from reconciler.engines import registry
from reconciler.engines.base import (
    Command,
    Engine,
    EngineError,
    Probe,
    Readiness,
    Saver,
    Server,
    Sleeper,
)

log = structlog.get_logger("reconciler.loop")
T = TypeVar("T")

#: What went wrong last, by engine and method: it is said with its traceback when it begins, not each second.
_WRONG: Final[dict[tuple[str, str], str]] = {}


def get(name: str) -> "Careful":
    """Return the engine called `name`; raises `KeyError` if there is none."""
    return Careful(registry.get(name))


class Careful:
    """An engine of which no method raises anything but EngineError, and that only where it says so.

    Of what has failed nothing is known: no number of jobs, no key, no sentence. The parts of the interface that the
    loop does not ask are not here.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """See Engine.probe."""
        try:
            return await self._awaited("probe", self._engine.probe(spec, base_url, client))
        except EngineError as error:
            return Probe(Readiness.FAILED, str(error))

    async def prove(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """See Engine.prove. Of an adapter that fails at it nothing is known, least of all that its server hangs."""
        try:
            return await self._engine.prove(spec, base_url, client)
        except Exception as error:
            self.note("prove", error)
            return Probe(Readiness.READY, fault(error))

    async def jobs(self, server: Server) -> int | None:
        """See Engine.jobs."""
        try:
            return await self._awaited("jobs", self._engine.jobs(server))
        except EngineError:
            return None

    def has_jobs(self, spec: LaunchSpec) -> bool:
        """See Engine.has_jobs."""
        return self._try("has_jobs", lambda: self._engine.has_jobs(spec), otherwise=False)

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """See Engine.sleeper; what it raises is an EngineError."""
        return self._try("sleeper", lambda: self._sleeper(spec), otherwise=None)

    def _sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        found = self._engine.sleeper(spec)
        return None if found is None else _Sleeper(self, found)

    def saver(self, spec: LaunchSpec) -> Saver | None:
        """See Engine.saver. What that one raises later is dealt with where states are saved."""
        return self._try("saver", lambda: self._engine.saver(spec), otherwise=None)

    def command(self, spec: LaunchSpec, port: int, saves: str | None = None) -> Command:
        """See Engine.command. Raises EngineError."""
        try:
            return self._engine.command(spec, port, saves)
        except Exception as error:
            self._raise("command", error)

    def api_key(self, spec: LaunchSpec) -> str | None:
        """See Engine.api_key."""
        return self._try("api_key", lambda: self._engine.api_key(spec), otherwise=None)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """See Engine.upstream_model."""
        return self._try("upstream_model", lambda: self._engine.upstream_model(spec), otherwise=None)

    def parallel(self, spec: LaunchSpec) -> int | None:
        """See Engine.parallel."""
        return self._try("parallel", lambda: self._engine.parallel(spec), otherwise=None)

    def said(self, text: str) -> Said | None:
        """See Engine.said."""
        return self._try("said", lambda: self._engine.said(text), otherwise=None)

    def explain(self, log_tail: str, exit_status: int | None) -> str | None:
        """See Engine.explain."""
        return self._try("explain", lambda: self._engine.explain(log_tail, exit_status), otherwise=None)

    def failure_kind(self, log_tail: str) -> FailureKind | None:
        """See Engine.failure_kind."""
        return self._try("failure_kind", lambda: self._engine.failure_kind(log_tail), otherwise=None)

    # -- what goes wrong -------------------------------------------------------------------------------------------

    def _try(self, method: str, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception as error:
            self.note(method, error)
            return otherwise

    async def _awaited(self, method: str, call: Awaitable[T]) -> T:
        """Return what an engine answers. Raises EngineError for whatever else comes of it."""
        try:
            return await call
        except EngineError:
            raise
        except Exception as error:
            self._raise(method, error)

    def _raise(self, method: str, error: Exception) -> NoReturn:
        self.note(method, error)
        raise EngineError(fault(error)) from error

    def note(self, method: str, error: Exception) -> None:
        """Say in the log what a method raised, unless it was the same the last time."""
        key, wrong = (self._engine.name, method), fault(error)
        if _WRONG.get(key) != wrong:
            _WRONG[key] = wrong
            log.exception("an engine's adapter failed", engine=key[0], method=method, exc_info=error)


def fault(error: Exception) -> str:
    """Return what an adapter raised, fit to be shown: its text may be of the server's making."""
    return f"a fault of its adapter: {type(error).__name__}"


class _Sleeper(Sleeper):
    def __init__(self, engine: Careful, sleeper: Sleeper) -> None:
        self._engine, self._sleeper = engine, sleeper
        self.wakes_later = sleeper.wakes_later

    async def sleep(self, server: Server) -> None:
        await self._engine._awaited("sleep", self._sleeper.sleep(server))

    async def wake(self, server: Server) -> None:
        await self._engine._awaited("wake", self._sleeper.wake(server))
