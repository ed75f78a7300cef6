"""What is known of starting a model before anybody is stopped for it, whichever engine it has."""

import time
from dataclasses import replace
from pathlib import Path

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight, Reason
from reconciler.core.words import size
from reconciler.engines import placement, registry
from reconciler.excerpt import hide, secrets_of
from reconciler.host import limits
from reconciler.memory.fingerprint import SETTLED, fingerprint


def examine(spec: LaunchSpec, *, settled: bool = True) -> Preflight:
    """Return the engine's opinion, whether this machine has the CPUs and GPUs, and the fingerprint of the weights.

    With `settled` files that were changed a moment ago have no fingerprint: they may still be written. Without, it is
    that of what a process which starts now would read.
    Nothing in it is secret. Ports are not looked at. Blocks: call it in a worker thread.
    """
    engine = registry.get(spec.engine)
    result = engine.preflight(spec)
    machine = placement.machine_for(spec)
    if result.reason is None and (problem := placement.why_not(spec, machine) or limits.why_not(spec.limits)):
        result = replace(result, reason=Reason.NOT_STARTABLE, message=problem)
    limited = engine.takes_limit or (engine.torch is not False and machine.system == "Darwin")
    noted = placement.notes(spec, machine, _locked_bytes(spec, result), limited=limited)
    notes = tuple(dict.fromkeys((*result.notes, *noted, *_stateless(spec), *_too_little(spec, result))))
    now = time.time() if settled else time.time() + SETTLED
    # Of weights that cannot be started there is nothing to say: what runs must not be replaced by them.
    weights = _fingerprint(spec, engine.sources(spec), now) if result.reason is None else ""
    return _shown(replace(result, notes=notes, weights=weights), spec)


def _fingerprint(spec: LaunchSpec, sources: tuple[str, ...], now: float) -> str:
    """Return hex digits for the weights, and behind a `+` for the sources if it has any; "" = it cannot be told.

    Sources are so small that they are read whole, and a text that was saved too early is soon saved again: nobody
    waits for them to settle.
    """
    weights = fingerprint(files_of(spec), now)
    if not sources or (files_of(spec) and not weights):
        return weights
    own = fingerprint(sources, now + SETTLED)
    return f"{weights}+{own}" if own else ""


def files_of(spec: LaunchSpec) -> tuple[str, ...]:
    """Return the files and folders that a model is made of."""
    named = (spec.weights, spec.projector, spec.draft, *(adapter.path for adapter in spec.adapters))
    return tuple(path for path in named if path is not None)


def _stateless(spec: LaunchSpec) -> tuple[str, ...]:
    """Say why its state will not be kept, although `state.save` asks for it."""
    saver = registry.get(spec.engine).saver(spec) if spec.saves_state else None
    why = saver.refuses(spec) if saver is not None else None
    return (f"its state will not be kept (state.save): {why}",) if why else ()


def _too_little(spec: LaunchSpec, found: Preflight) -> tuple[str, ...]:
    """Say so where a model is to hold more than its limit allows."""
    most, steady = spec.limits.memory, found.steady
    if most is None or steady is None or steady <= most:
        return ()
    text = f"limits.memory ({size(most)}) is below the {size(steady)} it is estimated to hold"
    return (
        f"{text}: mapped weights are then read again and again, and for anything else the kernel ends it",
    )


def _locked_bytes(spec: LaunchSpec, found: Preflight) -> int | None:
    if found.parts is not None and found.parts.weights is not None:
        return found.parts.weights
    path = Path(spec.weights or "")
    return path.stat().st_size if spec.weights is not None and path.is_file() else None


def _shown(found: Preflight, spec: LaunchSpec) -> Preflight:
    if not (found.message or found.notes):
        return found
    secrets = secrets_of(spec)
    return replace(
        found, message=hide(found.message, secrets), notes=tuple(hide(note, secrets) for note in found.notes)
    )
