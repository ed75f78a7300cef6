"""What the system says of real processes: stopped, at work, listening; and of a socket that is another's."""

import os
import signal
import socket
import sys

import anyio
import httpx
import pytest

from manager import process_state
from reconciler.host import listeners
from reconciler.loop.launches import Launch
from reconciler.loop.suspicion import Vitals
from reconciler.loop.vitals import Ask, VitalSigns
from support import wait_for_async

from .conftest import Bench, Launched

pytestmark = pytest.mark.anyio


def launch(launched: Launched) -> Launch:
    """Return the page of a process, as the loop has it."""
    made = Launch(launched.launch_id, "m", "d", None, launched.process, launched.port, 0.0)
    made.pids = (launched.process.pid,)
    return made


def read(signs: VitalSigns, page: Launch, *, works: bool = True) -> Vitals:
    return signs.read([Ask(page, works)])[page.id]


async def test_one_that_runs_and_one_that_is_stopped(bench: Bench) -> None:
    launched = await bench.serve()
    signs, page = VitalSigns(bench.host), launch(launched)
    seen = read(signs, page)
    assert (seen.stopped, seen.traced, seen.listens) == (None, False, True)
    pid = launched.process.pid
    os.kill(pid, signal.SIGSTOP)
    await wait_for_async(lambda: process_state(pid) == "T", 5, "it to be stopped")
    assert read(signs, page, works=False) == Vitals(stopped=pid, listens=True)
    os.kill(pid, signal.SIGCONT)
    await wait_for_async(lambda: process_state(pid) != "T", 5, "it to go on")
    assert read(signs, page).stopped is None


async def test_a_stopped_child_is_seen_too(bench: Bench) -> None:
    launched = await bench.serve("--worker")
    page = launch(launched)
    page.pids = bench.host.tree(launched.process, launched.launch_id)
    [worker] = set(page.pids) - {launched.process.pid}
    os.kill(worker, signal.SIGSTOP)
    await wait_for_async(lambda: process_state(worker) == "T", 5, "it to be stopped")
    assert read(VitalSigns(bench.host), page).stopped == worker


async def test_what_it_computes_is_counted_and_waiting_is_nothing(bench: Bench) -> None:
    idle, busy = await bench.serve("--think", "60"), await bench.serve("--spin", "60")
    signs = VitalSigns(bench.host)
    async with anyio.create_task_group() as tasks, httpx.AsyncClient(trust_env=False, timeout=60) as client:

        async def ask(port: int) -> None:
            await client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json={})

        tasks.start_soon(ask, idle.port)
        tasks.start_soon(ask, busy.port)
        before = read(signs, launch(busy)).cpu
        assert before is not None
        await wait_for_async(
            lambda: (read(signs, launch(busy)).cpu or 0.0) >= before + 0.5, 20, "half a second of computing"
        )
        rests = read(signs, launch(idle)).cpu
        more = read(signs, launch(busy)).cpu
        await wait_for_async(
            lambda: (read(signs, launch(busy)).cpu or 0.0) >= (more or 0.0) + 0.5, 20, "half a second more"
        )
        assert read(signs, launch(idle)).cpu == rests
        tasks.cancel_scope.cancel()


async def test_a_port_that_is_closed_or_taken_by_another_is_not_its_own(bench: Bench) -> None:
    launched = await bench.serve("--deaf-after", "0")
    signs, page = VitalSigns(bench.host), launch(launched)
    assert read(signs, page).listens is True
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        await client.post(f"http://127.0.0.1:{launched.port}/v1/chat/completions", json={})
    await wait_for_async(lambda: read(signs, page).listens is False, 5, "the closed port to be seen")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", launched.port))
        other.listen()
        assert [found.pid for found in listeners(launched.port)] == [os.getpid()]
        assert read(signs, page).listens is False, "a stranger sits on it"


async def test_a_socket_that_nobody_listens_by_any_more_is_found_by_whoever_doubts(bench: Bench) -> None:
    """Its file stays open, and only the list of all sockets says that it is shut."""
    serve = "s=socket.create_server(('127.0.0.1',{port})); s.shutdown(2) if input() else 0"
    script = f"import socket,time; {serve}; time.sleep(60)"
    fifo = bench.state_dir.parent / "word"
    os.mkfifo(fifo)
    launched = await bench.start("sh", "-c", f'exec "{sys.executable}" -c "{script}" < "{fifo}"')
    writer = await anyio.open_file(fifo, "w")
    await wait_for_async(lambda: listeners(launched.port), 5, "it to listen")
    signs, page = VitalSigns(bench.host), launch(launched)
    assert read(signs, page).listens is True
    await writer.write("shut it\n")
    await writer.aclose()
    await wait_for_async(lambda: not listeners(launched.port), 5, "it to be shut")
    assert signs.read([Ask(page, doubtful=True)])[page.id].listens is False


async def test_one_that_is_gone_has_no_signs(bench: Bench) -> None:
    launched = await bench.serve()
    page = launch(launched)
    await bench.host.stop(launched.process, launched.launch_id, grace=0)
    seen = read(VitalSigns(bench.host), page)
    assert (seen.stopped, seen.listens, seen.cpu) == (None, False, 0)
