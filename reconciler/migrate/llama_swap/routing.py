"""Who may stand beside whom by llama-swap's rules, whichever of its two routers says it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.manifest.tree import Mark


@dataclass(frozen=True, slots=True)
class Group:
    """Models that follow one rule. `mark` None = llama-swap made it of those in no group."""

    name: str
    members: tuple[str, ...]
    swap: bool = True
    exclusive: bool = True
    persistent: bool = False
    mark: Mark | None = None


@dataclass(slots=True)
class Routing:
    """What is swapped for what."""

    groups: tuple[Group, ...] = ()
    #: Of a matrix: the models of each combination that may be loaded together.
    sets: tuple[frozenset[str], ...] = ()
    matrix: Mark | None = None
    #: Models that nobody displaces.
    kept: frozenset[str] = frozenset()
    #: Whether each model that is loaded at start stays.
    preload: tuple[str, ...] = field(default=())

    def unloads(self, model: str, other: str) -> bool:
        """Tell whether asking for `model` unloads `other`, whatever memory there is."""
        if model == other:
            return False
        if self.matrix is not None:
            return not any({model, other} <= each for each in self.sets)
        own, theirs = self.group_of(model), self.group_of(other)
        if own is None or theirs is None:
            return False
        if own is theirs:
            return own.swap
        return own.exclusive and not theirs.persistent

    def group_of(self, model: str) -> Group | None:
        """Return the group a model is in."""
        return next((group for group in self.groups if model in group.members), None)

    def unloaded_by(self, model: str, models: Iterable[str]) -> tuple[str, ...]:
        """Return whom asking for `model` unloads, sorted."""
        return tuple(sorted(other for other in models if self.unloads(model, other)))
