"""What a saved state belongs to: it may only be restored into a process for which all of this is the same."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.core.launch import LaunchSpec
from reconciler.engines.base import Saver
from reconciler.loop.preflights import files_of
from reconciler.loop.states_record import Kept
from reconciler.memory.fingerprint import SETTLED, fingerprint


@dataclass(frozen=True, slots=True)
class Identity:
    """The engine and its build, the weights, and the settings that the saver names."""

    engine: str
    build: str
    #: "" = the model has no weights.
    weights: str
    setup: str

    @property
    def proof(self) -> str:
        """The name under which is remembered whether restoring works."""
        text = json.dumps([self.engine, self.build, self.weights, self.setup])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class UnknownWeightsError(Exception):
    """Nobody can tell any more which weights a process was started with; the message is a sentence."""


def identify(spec: LaunchSpec, build: str, created: float, saver: Saver) -> Identity:
    """Return what a process is that was begun at `created` (wall-clock seconds). Blocks.

    Raises UnknownWeightsError if files were changed since: what it holds in memory are others.
    """
    files = files_of(spec)
    # As of the begin: a file that was touched later has no fingerprint.
    weights = fingerprint(files, created + SETTLED) if files else ""
    if files and not weights:
        raise UnknownWeightsError("the weights cannot be read, or were changed since the model was started")
    setup = hashlib.sha256(saver.setup(spec).encode()).hexdigest()[:16]
    return Identity(spec.engine, build, weights, setup)


def difference(kept: Kept, now: Identity, other_build: Callable[[str, str], str]) -> str:
    """Return why a state may not be restored into a process, or ""; `other_build` says what is new in a build."""
    if kept.engine != now.engine:
        return f"the engine is {now.engine} now, it was {kept.engine}"
    if kept.weights != now.weights:
        return "the weights were replaced since"
    if kept.build != now.build:
        return other_build(kept.build, now.build)
    if kept.setup != now.setup:
        return "settings it depends on were changed since"
    return ""
