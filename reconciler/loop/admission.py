"""What a request needs besides a model that takes requests: how many places there are, and which gates it passes."""

from collections.abc import Iterable, Mapping

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import ModelSpec, Preflight
from reconciler.leases import Admission
from reconciler.loop import careful
from reconciler.manifest.applied import Applied, Gate, RequestLimits


def admissions(applied: Applied, preflights: Iterable[Preflight]) -> dict[str, Admission]:
    """Return the admission of every model of the manifest, by name; reads nothing and asks nobody."""
    seen = {p.model: p for p in preflights}
    made = {}
    for spec in applied.manifest.models:
        launch, limits = applied.launches[spec.name], applied.limits.get(spec.name, RequestLimits())
        made[spec.name] = Admission(
            concurrency=_concurrency(launch, limits),
            gates=gates_of(launch, limits, applied.gateway.gates, weight(spec, seen.get(spec.name))),
        )
    return made


def gates_of(
    launch: LaunchSpec, limits: RequestLimits, gates: Mapping[str, Gate], weights: int | None
) -> tuple[str, ...]:
    """Return the gates a model passes, sorted: those it names, else those made for its role and its size.

    `weights` is in bytes. One of unknown size (None) passes no gate that is for large ones.
    """
    if limits.gates is not None:
        return tuple(sorted(limits.gates))
    return tuple(
        name
        for name, gate in sorted(gates.items())
        if launch.role in gate.roles
        and (gate.above is None or (weights is not None and weights >= gate.above))
    )


def weight(spec: ModelSpec, preflight: Preflight | None) -> int | None:
    """Return the bytes that each token has to be worked out of: the weights, else the nearest that is known."""
    if preflight is not None and preflight.parts is not None and preflight.parts.weights is not None:
        return preflight.parts.weights
    if spec.steady is not None:
        return spec.steady
    files = sum(file.size for file in preflight.files) if preflight is not None else 0
    return files or None


def _concurrency(launch: LaunchSpec, limits: RequestLimits) -> int | None:
    """Return the requests a model gets at once; None = any number."""
    return limits.concurrency or careful.get(launch.engine).parallel(launch)
