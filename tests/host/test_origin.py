"""A launch whose record is lost is known from what its process tells."""

import json
import os
import subprocess

import pytest

from reconciler.engines.base import Command
from reconciler.host import Host
from reconciler.host.identity import read_environ
from reconciler.host.origin import ORIGIN_VARIABLE, Origin, origin_in
from support import FAKE, free_port, wait_for

from .conftest import Bench, Launched

pytestmark = pytest.mark.anyio


async def serve(bench: Bench, launch_id: str, *argv: str) -> tuple[Launched, Origin]:
    """Start a fake engine (or any argv) that tells what it is, and wait until it answers."""
    port = free_port()
    origin = Origin('größer/als "a"', "digest", port, 1700000000.25, 5 << 30)
    words = argv or (*FAKE, "--port", "{port}", "--worker")
    command = Command(
        tuple(word.replace("{port}", str(port)) for word in words), "/", {ORIGIN_VARIABLE: "forged"}
    )
    process = await bench.host.start(
        command, model=origin.model, launch_id=launch_id, port=port, origin=origin
    )
    launched = Launched(process, launch_id, port)
    bench.launched.append(launched)
    await bench.answers(port)
    return launched, origin


async def test_a_later_run_reads_from_a_process_what_was_started(bench: Bench) -> None:
    launched, origin = await serve(bench, "one")
    unknown = await bench.serve()  # it tells nothing
    later = Host(bench.state_dir, bench.host.owner)
    ids = later.unrecorded([])
    assert ids == tuple(sorted([launched.launch_id, unknown.launch_id]))
    [found] = later.recall(ids)
    assert (found.launch_id, found.process, found.origin) == ("one", launched.process, origin)
    assert later.recall(["none-such"]) == ()
    later.close()


async def test_another_owner_reads_nothing(bench: Bench) -> None:
    await serve(bench, "one")
    other = Host(bench.state_dir, "another-owner")
    assert other.unrecorded([]) == ()
    assert other.recall(["one"]) == ()
    other.close()


async def test_a_worker_does_not_speak_for_a_server_that_is_gone(bench: Bench) -> None:
    """It has inherited all that the server had in its environment."""
    script = f"({' '.join((*FAKE, '--port {port}'))}) & exec sleep 999"
    launched, origin = await serve(bench, "one", "sh", "-c", script)
    [found] = bench.host.recall(["one"])
    assert found.process == launched.process
    os.kill(launched.process.pid, 9)
    await bench.host.wait_exit(launched.process)
    [worker] = bench.host.tree(None, "one", thorough=True)
    assert origin_in(read_environ(worker)) == origin
    assert bench.host.recall(["one"]) == ()


GOOD = {"model": "m", "digest": "d", "port": 9000, "created": 1.5, "admitted": 7}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        json.dumps({**GOOD, "port": 0}),
        json.dumps({**GOOD, "port": 65536}),
        json.dumps({**GOOD, "port": "9000"}),
        json.dumps({**GOOD, "model": ""}),
        json.dumps({**GOOD, "digest": None}),
        json.dumps({k: v for k, v in GOOD.items() if k != "admitted"}),
    ],
)
def test_what_cannot_be_understood_tells_nothing(text: str) -> None:
    assert origin_in([b"PATH=/bin", f"{ORIGIN_VARIABLE}={text}".encode()]) is None


def test_what_is_written_is_read_as_it_was() -> None:
    origin = Origin("m", "d", 9000, 1.5, 7)
    [(name, text)] = origin.variables().items()
    assert json.loads(text) == GOOD
    with subprocess.Popen(["sleep", "999"], env={name: text}) as sleeper:
        try:
            # The kernel shows what it was started with an instant after the program runs.
            told = wait_for(lambda: origin_in(read_environ(sleeper.pid)), 5, "its environment")
        finally:
            sleeper.kill()
    assert told == origin
    assert origin_in([b"PATH=/bin", b"\xff=\xff", f"{ORIGIN_VARIABLE}=".encode() + b"\xff"]) is None
