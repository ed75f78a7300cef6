"""The proof that whoever answers on a port is the process we started."""

import contextlib
import os
import socket

import pytest

from reconciler.host import PortOwner, listeners
from support import FAKE, free_port, wait_for_async

from .conftest import Bench, Launched

pytestmark = pytest.mark.anyio


def owner(bench: Bench, launched: Launched, port: int | None = None) -> PortOwner:
    return bench.host.owns_port(launched.process, launched.launch_id, port or launched.port).owner


@pytest.mark.parametrize(
    ("options", "reached"),
    [
        ((), "127.0.0.1"),
        (("--host", "0.0.0.0"), "127.0.0.1"),
        (("--host", "::"), "[::1]"),
        (("--host", "::1", "--v6only"), "[::1]"),
        (("--host", "::", "--v6only"), "[::1]"),
    ],
)
async def test_ours_on_any_address_that_the_loopback_reaches(
    bench: Bench, options: tuple[str, ...], reached: str
) -> None:
    launched = await bench.start(*FAKE, "--port", "{port}", *options)
    await wait_for_async(lambda: listeners(launched.port), 5, "it listens")
    proof = bench.host.owns_port(launched.process, launched.launch_id, launched.port)
    assert (proof.owner, proof.pid, proof.host) == (PortOwner.OURS, launched.process.pid, reached)


@pytest.mark.parametrize(
    "script",
    ["FAKE; exit $?", "FAKE & exit 0", "setsid FAKE >/dev/null 2>&1 & exit 0", "exec FAKE"],
)
async def test_a_server_behind_a_wrapper_is_ours(bench: Bench, script: str) -> None:
    launched = await bench.shell(script)
    assert owner(bench, launched) is PortOwner.OURS


async def test_nobody_yet(bench: Bench) -> None:
    launched = await bench.start("sleep", "60")
    proof = bench.host.owns_port(launched.process, launched.launch_id, launched.port)
    assert proof.owner is PortOwner.NOBODY
    assert proof.message == f"nobody listens on {launched.port}"


async def test_a_stranger_on_the_port_is_named(bench: Bench) -> None:
    stranger = await bench.serve(model="stranger")
    launched = await bench.start("sleep", "60")
    proof = bench.host.owns_port(launched.process, launched.launch_id, stranger.port)
    assert (proof.owner, proof.pid) == (PortOwner.STRANGER, stranger.process.pid)
    assert proof.message == (
        f"port {stranger.port} belongs to pid {stranger.process.pid}, which is not part of this model"
    )


async def test_a_server_on_another_port_than_declared_is_told_with_both(bench: Bench) -> None:
    launched = await bench.serve()
    declared = free_port()
    proof = bench.host.owns_port(launched.process, launched.launch_id, declared)
    assert (proof.owner, proof.ports) == (PortOwner.OTHER_PORT, (launched.port,))
    assert proof.message == (
        f"pid {launched.process.pid} listens on {launched.port}, manifest says {declared}"
    )


async def test_a_server_on_another_local_address_is_told_where_it_listens(bench: Bench) -> None:
    launched = await bench.start(*FAKE, "--port", "{port}", "--host", "127.0.0.2")
    await wait_for_async(lambda: bool(listeners(launched.port)), 5, "it to listen")
    proof = bench.host.owns_port(launched.process, launched.launch_id, launched.port)
    assert proof.owner is PortOwner.OTHER_PORT
    assert proof.message == (
        f"pid {launched.process.pid} listens on 127.0.0.2:{launched.port}, which is not reached at 127.0.0.1"
    )


async def test_a_stranger_beside_us_in_the_other_family_spoils_the_proof(bench: Bench) -> None:
    launched = await bench.serve()
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(("::1", launched.port))
        sock.listen()
        proof = bench.host.owns_port(launched.process, launched.launch_id, launched.port)
        assert (proof.owner, proof.pid) == (PortOwner.STRANGER, os.getpid())
    assert owner(bench, launched) is PortOwner.OURS


async def test_a_stranger_sharing_our_very_address_spoils_the_proof(bench: Bench) -> None:
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        share = (
            "import socket,time; s=socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1);"
            f"s.bind(('127.0.0.1', {port})); s.listen(); time.sleep(60)"
        )
        launched = await bench.start(FAKE[0], "-c", share)
        await wait_for_async(lambda: len(listeners(port)) == 2, 5, "both listen")
        assert owner(bench, launched, port) is PortOwner.STRANGER


async def test_all_listeners_of_a_port_are_listed_with_their_places(bench: Bench) -> None:
    one = await bench.serve("--host", "0.0.0.0")
    (found,) = listeners(one.port)
    assert (found.pid, found.place, found.on_loopback) == (one.process.pid, f"0.0.0.0:{one.port}", True)
    assert listeners(free_port()) == ()
