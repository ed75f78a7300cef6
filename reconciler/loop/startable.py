"""Whether a model could be started now: its engine's opinion, and a port."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight, Reason
from reconciler.host import Ports, is_free, listeners
from reconciler.loop import careful
from reconciler.loop.preflights import examine

#: Ports of an exhausted range whose holders are named.
NAMED: Final = 3


def preflight(spec: LaunchSpec, owners: Mapping[int, str], ports: Ports) -> Preflight:
    """Return whether a model could be started now: its engine's opinion, and a port. Blocks.

    `owners` are the ports of our launches with the model each belongs to: a model's own old process gives its port
    back before the new one needs it, and so does every other process of ours that must make room first.
    """
    result = examined(spec)
    if result.reason is not None:
        return result
    if spec.port is not None:
        problem = _port_problem(spec.port, spec.model, owners)
        return replace(result, reason="PortBusy", message=problem) if problem else result
    ours = {port: model for port, model in sorted(owners.items()) if ports.first <= port <= ports.last}
    if spec.model in ours.values() or ports.any_free(ours):
        return result
    text = _exhausted(ports, ours)
    if not ours:
        return replace(result, reason="PortBusy", message=f"{text}: widen machine.ports, or end one of them")
    return replace(result, ports_of=tuple(sorted(set(ours.values()))), ports_held=text)


def examined(spec: LaunchSpec, *, settled: bool = True) -> Preflight:
    """Return what the files say of starting a model; for `settled` see `examine`. Blocks."""
    try:
        return examine(spec, settled=settled)
    except Exception as error:  # an adapter that breaks its promise hinders its own models, and nobody else's
        careful.get(spec.engine).note("preflight", error)
        return Preflight(spec.model, reason=Reason.NOT_STARTABLE, message=careful.fault(error))


def _exhausted(ports: Ports, ours: Mapping[int, str]) -> str:
    """Return who holds the ports of the range; looks for the owners of the first few only."""
    every = range(ports.first, ports.last + 1)
    shown = [*sorted(ours), *(port for port in every if port not in ours)][:NAMED]
    held = [f"{ours[port]} has {port}" if port in ours else f"{_stranger(port)} has {port}" for port in shown]
    more = [f"{len(every) - NAMED} more are taken"] if len(every) > NAMED else []
    return f"no port of {ports.first}-{ports.last} is free ({', '.join([*held, *more])})"


def _stranger(port: int) -> str:
    held = listeners(port)
    return f"pid {held[0].pid}" if held and held[0].pid else "another program"


def _port_problem(port: int, model: str, owners: Mapping[int, str]) -> str | None:
    owner = owners.get(port)
    if owner == model or (owner is None and is_free(port)):
        return None
    if owner is not None:
        return f"port {port} is in use by our model {owner}: give one of the two another port"
    return f"port {port} is in use by {_stranger(port)}: stop it, or leave `port` out to have one chosen"
