"""Drains that may be called off, and models that are left alone for a while because one was."""

from dataclasses import dataclass, replace
from math import inf

from reconciler.core.draining import PATIENCE, UNNEEDED, overtaking, unneeded
from reconciler.core.machine import Evicting
from reconciler.core.types import Evict, Manifest, Observation, Reason, World


@dataclass(frozen=True, slots=True)
class _Spared:
    reason: Reason
    until: float
    #: What the drain was for, if it was put off for somebody else; see `_wait`.
    wait: tuple[object, ...] = ()


class Drains:
    """Judges the drain in flight, and remembers of each model the last one that was called off.

    Not begun again for the same reason within `PATIENCE`: else a figure at the edge would seal and unseal a model
    at every look.
    """

    def __init__(self) -> None:
        self._spared: dict[str, _Spared] = {}

    def judge(self, state: Evicting, limit: float, manifest: Manifest, world: World, now: float) -> str:
        """Return why the drain in flight is called off, which is noted, or "" if it goes on.

        `limit` is how many seconds it may take: one that has an end is put off only once for the same wait.
        """
        action = state.action
        if unneeded(action, manifest, world, now):
            if action.reason is Reason.MAKE_ROOM:
                self._spared[action.model] = _Spared(action.reason, now + PATIENCE)
            return UNNEEDED
        wait, before = _wait(action, world), self._spared.get(action.model)
        if limit < inf and before is not None and before.wait == wait:
            return ""
        other = overtaking(action, manifest, world, state.since, now)
        if not other:
            return ""
        self._spared[action.model] = _Spared(action.reason, now + PATIENCE, wait)
        return f"it takes long, and {other} can be loaded without it"

    def spare(self, seen: Observation, now: float) -> Observation:
        """Return the same look, with those marked that are not to be drained again yet."""
        spared = {name: s.reason for name, s in self._spared.items() if s.until > now}
        if not spared:
            return seen
        demands = tuple(replace(d, spared=spared.get(d.model)) for d in seen.demands)
        return replace(seen, demands=demands)

    def next_end(self, now: float) -> float | None:
        """Return when the next model may be drained again; None = there is none to wait for."""
        return min((s.until for s in self._spared.values() if s.until > now), default=None)


def _wait(action: Evict, world: World) -> tuple[object, ...]:
    """Return what a drain is for: which process goes why, for whom, and since when that one waits."""
    claimant = action.for_model
    oldest = next((d.oldest for d in world.observation.demands if d.model == claimant), None)
    return (action.pid, action.started, action.reason, claimant, oldest)
