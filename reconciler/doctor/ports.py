"""Ports: the gateway's, those of the models' range, and fixed ones."""

from collections.abc import Iterator, Mapping

from reconciler.doctor.finding import Finding, error, ok, warning
from reconciler.host import is_free, listeners
from reconciler.manifest.applied import Applied


def check_ports(applied: Applied, ours: Mapping[int, str], serving: int | None) -> Iterator[Finding]:
    """Yield which ports are taken. `ours` are the ports our models hold, by model; `serving` is our own gateway's port.

    Blocks: it binds each port for an instant.
    """
    gateway = applied.gateway.port
    if gateway and gateway == serving:
        yield ok("gateway", f"port {gateway} is served by the running loop")
    elif gateway and not is_free(gateway):
        advice = "stop it, or choose another port: gateway.listen, or --listen"
        yield error("gateway", f"port {gateway} is in use by {_holder(gateway)}", advice)
    else:
        yield ok("gateway", f"port {gateway or '(any)'} is free")
    yield from _check_range(applied, ours)
    for name, spec in sorted(applied.launches.items()):
        if spec.port is not None and spec.port not in ours and not is_free(spec.port):
            advice = "stop it, or leave `port` out to have one chosen"
            yield error("ports", f"port {spec.port} of {name} is in use by {_holder(spec.port)}", advice)


def _check_range(applied: Applied, ours: Mapping[int, str]) -> Iterator[Finding]:
    first, last = applied.ports
    need = sum(spec.port is None for spec in applied.launches.values())
    usable = sum(port in ours or is_free(port) for port in range(first, last + 1))
    text = f"{usable} of {first}-{last} can be used, {need} models want one"
    if usable >= need:
        yield ok("ports", text)
    else:
        short = error if usable == 0 else warning
        yield short("ports", text, "widen machine.ports, or end what holds them")


def _holder(port: int) -> str:
    held = listeners(port)
    return f"pid {held[0].pid}" if held and held[0].pid else "another program"
