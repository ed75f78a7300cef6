"""What is known of a model's port before anybody is stopped for it."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.core.launch import LaunchSpec, Limits
from reconciler.core.types import Preflight, Reason
from reconciler.engines import registry
from reconciler.host import Ports, limits
from reconciler.loop.startable import preflight
from support import free_port


@contextmanager
def held(*ports: int) -> Iterator[None]:
    """Listen on ports as another program would."""
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        yield


def spec(port: int | None = None) -> LaunchSpec:
    return LaunchSpec("m", "command", command=("/bin/true",), port=port)


def test_a_fixed_port_must_be_free_or_the_models_own() -> None:
    port, ports = free_port(), Ports(18100, 18199)
    assert preflight(spec(port), {}, ports).reason is None
    with held(port):
        found = preflight(spec(port), {}, ports)
        assert found.reason == "PortBusy"
        assert f"port {port} is in use by pid" in found.message
        assert preflight(spec(port), {port: "m"}, ports).reason is None
    other = preflight(spec(port), {port: "n"}, ports)
    assert other.reason == "PortBusy"
    assert "our model n" in other.message


@pytest.mark.parametrize(("owners", "reason"), [({}, "PortBusy"), ({7: "n"}, "PortBusy")])
def test_without_a_free_port_in_the_range_nobody_goes(owners: dict[int, str], reason: str) -> None:
    port = free_port()
    with held(port):
        assert preflight(spec(), owners, Ports(port, port)).reason == reason
    assert preflight(spec(), owners, Ports(port, port)).reason is None


def test_who_holds_the_ports_of_the_range_is_told_and_which_of_ours_would_have_to_go() -> None:
    first = free_port()
    ports = Ports(first, first + 1)
    with held(first):
        found = preflight(spec(), {first + 1: "n"}, ports)
        text = f"no port of {first}-{first + 1} is free (n has {first + 1}, pid {os.getpid()} has {first})"
        assert (found.reason, found.ports_of) == (None, ("n",))
        assert found.ports_held == text
        # Its own process gives it back, and is woken where it is.
        assert preflight(spec(), {first + 1: "m"}, ports).ports_of == ()
    many = preflight(
        spec(), {port: f"n{port - first}" for port in range(first, first + 9)}, Ports(first, first + 8)
    )
    assert f"(n0 has {first}, n1 has {first + 1}, n2 has {first + 2}, 6 more are taken)" in many.ports_held


def test_a_limit_that_cannot_be_set_is_told_before_anybody_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = replace(spec(), limits=Limits(memory=64 << 20))
    monkeypatch.setattr(limits, "place", lambda root: "nobody may")
    found = preflight(limited, {}, Ports(18100, 18199))
    assert (found.reason, found.message) == (
        Reason.NOT_STARTABLE,
        "limits.memory cannot be set here: nobody may",
    )


def test_a_limit_below_the_size_is_worth_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "place", lambda root: limits.Place(tmp_path, 1))
    engine = type(registry.get("command"))
    monkeypatch.setattr(engine, "preflight", lambda self, spec: Preflight(spec.model, steady=2 << 20))
    for most, noted in ((1, True), (2, False)):
        found = preflight(replace(spec(), limits=Limits(memory=most << 20)), {}, Ports(18100, 18199))
        assert found.reason is None
        assert any("limits.memory (1 MiB) is below the 2 MiB" in n for n in found.notes) == noted
