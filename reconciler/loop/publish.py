"""The snapshot for everybody else, made once at the end of a turn."""

import os
from collections.abc import Callable, Mapping

from reconciler import __version__
from reconciler.board import Board, Health, PrewarmFigures, Progress, SavedState, Snapshot
from reconciler.core.machine import State
from reconciler.core.regrets import Regret
from reconciler.core.status import Condition, Facts, of_manifest, of_models
from reconciler.core.types import Plan, World
from reconciler.host import Logs
from reconciler.leases import Admission, Traffic
from reconciler.loop.launches import Launches
from reconciler.manifest import Applied


class Publisher:
    """Derives conditions and publishes. Remembers only when each condition last changed."""

    def __init__(
        self,
        board: Board,
        logs: Logs,
        states: Callable[[], Mapping[str, SavedState]],
        health: Callable[[], Mapping[str, Health]],
    ) -> None:
        self._board = board
        self._logs = logs
        self._states = states
        self._health = health
        self._manifest: tuple[Condition, ...] = ()
        self._models: Mapping[str, tuple[Condition, ...]] = {}

    def publish(
        self,
        applied: Applied,
        world: World,
        plan: Plan,
        state: State,
        refused: tuple[str, ...],
        progress: Progress | None,
        launches: Launches,
        traffic: Traffic,
        admissions: Mapping[str, Admission],
        trouble: str | None,
        prewarmed: PrewarmFigures,
        regrets: tuple[Regret, ...],
        safe_mode: str,
        now: float,
    ) -> None:
        """Publish what is true at `now`."""
        serving = frozenset(
            m for m in applied.launches if (x := launches.serving(m)) is not None and not x.hung
        )
        facts = Facts(applied.manifest, world, plan, state, serving, refused, trouble, regrets, safe_mode)
        self._manifest = of_manifest(facts, self._manifest, now)
        self._models = of_models(facts, self._models, now)
        self._board.publish(
            Snapshot(
                at=now,
                applied=applied,
                world=world,
                plan=plan,
                state=state,
                manifest_conditions=self._manifest,
                model_conditions=self._models,
                progress=progress,
                refused=refused,
                pid=os.getpid(),
                version=__version__,
                traffic=traffic,
                admissions=admissions,
                states=self._states(),
                health=self._health(),
                prewarmed=prewarmed,
                log_paths={m: str(self._logs.path(m)) for m in sorted(applied.launches)},
            )
        )
