"""The host: everything a loop needs to start, watch, prove, stop and find again its processes."""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import anyio.to_thread
import structlog

from reconciler.core.launch import Limits
from reconciler.engines.base import Command
from reconciler.host import adopt, listeners, oom
from reconciler.host.errors import StartError
from reconciler.host.exits import Exit, Exits, open_pidfd
from reconciler.host.identity import Process, process_table
from reconciler.host.limits import Groups
from reconciler.host.logs import Logs
from reconciler.host.origin import Origin, Recalled, recall
from reconciler.host.spawn import child_environment, spawn
from reconciler.host.stop import Ladder, StopReport
from reconciler.host.tree import Mark, launches_of, members
from reconciler.memory.oom_kills import Kills

LOG_CAP: Final = 8 << 20

log = structlog.get_logger("reconciler.host")


class Host:
    """Processes of one owner. Belongs to one event loop; methods said to block belong in worker threads.

    `owner` names the state directory for good (not one run), so that a later run recognises what this one started.
    `log_cap` is in bytes, for each model.
    """

    def __init__(self, state_dir: Path, owner: str, *, log_cap: int = LOG_CAP) -> None:
        self.owner = owner
        self.logs = Logs(state_dir / "logs", log_cap)
        #: Where saved states of models lie; made when it is needed.
        self.states = state_dir / "states"
        self._exits = Exits()
        self._groups = Groups(owner)
        self._hidden: frozenset[str] = frozenset()

    def hide(self, variables: Iterable[str]) -> None:
        """Leave these variables of ours out of the environment of whatever is started from now on."""
        self._hidden = frozenset(variables)

    async def start(
        self, command: Command, *, model: str, launch_id: str, port: int, origin: Origin | None = None
    ) -> Process:
        """Start `command` as one launch of `model` and return its identity; it is reaped whenever it ends.

        `port` only goes into the log. `origin` is what its process is to tell of it should its record be lost; without
        one it is then ended. Raises StartError with a sentence for people.
        """
        loop = asyncio.get_running_loop()

        def begin() -> Process:
            process = self._begin(command, model, launch_id, port, origin)
            # From here, not after the await: a cancelled caller must not leave a zombie behind.
            loop.call_soon_threadsafe(self._adopt_child, process, open_pidfd(process))
            return process

        return await anyio.to_thread.run_sync(begin)

    async def wait_exit(self, process: Process) -> Exit:
        """Return how `process` ended, as soon as it has; unknown status for one that an earlier run started."""
        return await self._exits.wait(process)

    async def stop(
        self,
        process: Process | None,
        launch_id: str,
        *,
        grace: float,
        on_escalate: Callable[[str], None] | None = None,
        hurried: Callable[[], bool] | None = None,
    ) -> StopReport:
        """End all processes of a launch and return when the last is gone: SIGTERM, `grace` seconds, SIGTERM, SIGKILL.

        Once `hurried` says so, no step takes more than two seconds.
        Works as well when `process` is dead or unknown (None): what it left behind is found by its mark. Close the
        connections to the server before: some wait for their clients. Raises StopError for what survives.
        """
        report = await Ladder(process, self._mark(launch_id), on_escalate, hurried).run(grace)
        if process is not None and process.pid in report.pids:
            await self._exits.wait(process)  # gone means reaped, too
        await anyio.to_thread.run_sync(self._groups.sweep)
        return report

    def tree(self, process: Process | None, launch_id: str, *, thorough: bool = False) -> tuple[int, ...]:
        """Return the pids of a launch, sorted. `thorough` also finds daemonised ones. Blocking."""
        return tuple(p.pid for p in members(process, self._mark(launch_id), thorough=thorough))

    def trees(self, launches: Iterable[tuple[Process, str]]) -> dict[str, tuple[int, ...]]:
        """Return launch id -> pids for many launches (process, launch id) at the cost of one `tree`. Blocking."""
        table = process_table()
        return {
            launch_id: tuple(p.pid for p in members(process, self._mark(launch_id), table=table))
            for process, launch_id in launches
        }

    def serving(self, process: Process, launch_id: str, limits: Limits) -> None:
        """Note that a launch serves: the kernel should end it later than one that is being loaded. Blocking.

        What its own `limits` say of that rules.
        """
        oom.prefer(self.tree(process, launch_id), oom.score(limits, oom.SERVING))

    def kills(self, launch_id: str) -> Kills | None:
        """Return what the kernel did, for want of memory, in the control group of a launch. Blocking.

        None = it has none of its own.
        """
        return self._groups.kills(launch_id)

    def over(self) -> None:
        """Note that nothing is left of some launch: what was made for it goes, too. Blocking."""
        self._groups.sweep()

    def owns_port(self, process: Process, launch_id: str, port: int) -> listeners.PortProof:
        """Prove who answers on `port`. Blocking."""
        return listeners.owns_port(process, self._mark(launch_id), port)

    def survivors(self, records: Iterable[adopt.Record]) -> tuple[adopt.Survivor, ...]:
        """Return which recorded launches still live and are provably ours. Blocking."""
        found = adopt.survivors(records, self.owner)
        self._groups.sweep()  # of those that ended while nobody ruled
        return found

    def unrecorded(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the launch ids of ours that live though no record knows them: the ledger was lost. Blocking."""
        return tuple(sorted(set(launches_of(self.owner)) - set(known)))

    def recall(self, launch_ids: Iterable[str]) -> tuple[Recalled, ...]:
        """Return which of these launches of ours tell what they are, though no record does. Blocking."""
        return recall(self.owner, launch_ids)

    def close(self) -> None:
        """Stop watching. The processes go on: a later run adopts them."""
        self._exits.close()

    def _mark(self, launch_id: str) -> Mark:
        return Mark(self.owner, launch_id)

    def _adopt_child(self, process: Process, pidfd: int | None) -> None:
        self._exits.watch(process, pidfd, child=True)

    def _begin(
        self, command: Command, model: str, launch_id: str, port: int, origin: Origin | None
    ) -> Process:
        own = {name: value for name, value in os.environ.items() if name not in self._hidden}
        told = origin.variables() if origin is not None else {}
        env = child_environment(own, command, {**told, **self._mark(launch_id).variables()})
        output = self._log_of(model, launch_id)
        memory = command.limits.memory
        try:
            with self._groups.making if memory is not None else nullcontext():
                group = None if memory is None else self._groups.make(launch_id, memory)
                process = spawn(command, env, output, group)
            self.logs.note(output, f"pid {process.pid} port {port}")
        except StartError as error:
            self.logs.note(output, str(error))
            raise
        finally:
            os.close(output)
        return process

    def _log_of(self, model: str, launch_id: str) -> int:
        """Return where a process writes: its log file, or nowhere while the disk takes nothing.

        Many programs end when they cannot write their log; no model shall go for that.
        """
        output = None
        try:
            output = self.logs.open(model)
            self.logs.begin(output, launch_id)
        except OSError as error:
            why = f"{self.logs.path(model)}: {error.strerror}"
            log.warning("its log cannot be written: it is started without one", model=model, why=why)
            if output is not None:
                os.close(output)
            output = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        return output
