"""Whether a model could be started now: its engine's opinion, and a port."""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight, Reason
from reconciler.host import Ports, is_free, listeners
from reconciler.loop import careful
from reconciler.loop.preflights import examine


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
    in_range = any(ports.first <= port <= ports.last for port in owners)
    if not in_range and not ports.any_free():
        text = f"no port of {ports.first}-{ports.last} is free: widen machine.ports"
        return replace(result, reason="PortBusy", message=text)
    return result


def examined(spec: LaunchSpec, *, settled: bool = True) -> Preflight:
    """Return what the files say of starting a model; for `settled` see `examine`. Blocks."""
    try:
        return examine(spec, settled=settled)
    except Exception as error:  # an adapter that breaks its promise hinders its own models, and nobody else's
        careful.get(spec.engine).note("preflight", error)
        return Preflight(spec.model, reason=Reason.NOT_STARTABLE, message=careful.fault(error))


def _port_problem(port: int, model: str, owners: Mapping[int, str]) -> str | None:
    owner = owners.get(port)
    if owner == model or (owner is None and is_free(port)):
        return None
    if owner is not None:
        return f"port {port} is in use by our model {owner}: give one of the two another port"
    held = listeners(port)
    who = f"pid {held[0].pid}" if held and held[0].pid else "another program"
    return f"port {port} is in use by {who}: stop it, or leave `port` out to have one chosen"
