"""The socket and the embedded server: first try, clear refusals, an orderly end."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time

import anyio
import pytest

from gateway_rig import receive_until, request, rig, scripted
from reconciler.gateway.server import AddressInUse, BindError, bind, port_holder
from reconciler.manifest.applied import GatewaySettings
from support import free_port, wait_for_async

pytestmark = pytest.mark.anyio


def test_a_busy_port_names_its_holder_and_what_to_do() -> None:
    with bind(GatewaySettings(port=0)) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(AddressInUse) as caught:
            bind(GatewaySettings(port=port))
    text = str(caught.value)
    assert f"127.0.0.1:{port} is in use by pid " in text
    assert "gateway.listen" in text
    assert port_holder(port) is None


@pytest.mark.parametrize("host", ["203.0.113.1", "no such host"])
def test_an_address_that_is_not_ours_is_a_clear_error(host: str) -> None:
    with pytest.raises(BindError, match=f"cannot listen on {host}:") as caught:
        bind(GatewaySettings(host=host, port=free_port()))
    assert not isinstance(caught.value, AddressInUse)


def test_localhost_is_the_ipv4_loopback() -> None:
    with bind(GatewaySettings(host="localhost", port=0)) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


def test_no_child_inherits_the_socket() -> None:
    with bind(GatewaySettings(port=0)) as sock:
        assert not sock.get_inheritable()


HOLDER = """
import socket, subprocess, sys
from reconciler.gateway.server import bind
from reconciler.manifest.applied import GatewaySettings
sock = bind(GatewaySettings(port=int(sys.argv[1])))
sock.setblocking(True)
child = subprocess.Popen(["sleep", "60"], close_fds=False)
print(child.pid, flush=True)
held = sock.accept()
print("accepted", flush=True)
input()
"""


def test_the_port_binds_at_the_first_try_after_a_kill() -> None:
    port = free_port()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            assert holder.stdout.readline() == "accepted\n"
            holder.kill()
            holder.wait()
            bind(GatewaySettings(port=port)).close()
    finally:
        subprocess.run(["kill", str(child)], check=True)
        holder.communicate()


async def test_stop_lets_an_answer_under_way_end_and_takes_no_new_one() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}')) as stream:
            got = await engine.next()
            await got.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            await receive_until(stream, b"a\r\n")
            r.server.stop()
            with anyio.fail_after(2):
                while not await refused(r.port):
                    await anyio.lowlevel.checkpoint()
            await got.write(b"1\r\nb\r\n0\r\n\r\n")
            assert (await receive_until(stream, b"0\r\n\r\n")).startswith(b"1\r\nb\r\n")
        await r.idle()


async def test_the_end_does_not_wait_for_an_endless_answer() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}')):
            got = await engine.next()
            r.server.config.timeout_graceful_shutdown = 0
            before = time.monotonic()
            r.server.stop()
            await got.left()
            assert time.monotonic() - before < 2
        await r.idle()


async def refused(port: int) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        return True
    await stream.aclose()
    return False


async def test_signals_stay_the_owners() -> None:
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    async with rig():
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


async def test_a_cancelled_server_leaves_no_socket_and_no_task() -> None:
    from reconciler.gateway.server import GatewayServer, serve

    seen: asyncio.Future[GatewayServer] = asyncio.get_running_loop().create_future()
    sock = bind(GatewaySettings(port=0))
    port = sock.getsockname()[1]

    async def app(scope: object, receive: object, send: object) -> None:
        await anyio.sleep_forever()

    tasks = asyncio.all_tasks()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: serve(app, GatewaySettings(), sock=sock, started=seen.set_result))
        await seen
        stream = await anyio.connect_tcp("127.0.0.1", port)
        await stream.send(request(b""))
        server = await seen
        await wait_for_async(lambda: bool(server.server_state.tasks), 2, "the request to be served")
        group.cancel_scope.cancel()
    await stream.aclose()
    assert await refused(port)
    await wait_for_async(lambda: asyncio.all_tasks() <= tasks, 2, "every task to end")
