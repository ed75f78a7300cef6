"""The log leaves the program in order, and a reader that is slow, gone or full holds nothing up."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.outlet import Outlet
from support import wait_for

#: Seconds: far more than anything here takes.
LONG = 20.0


def note(count: int) -> str:
    return f"{count}-dropped\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            assert end == reader, "only the tests' own end is closed early"


def fill(writer: int) -> None:
    """Put empty lines into the pipe until it takes no more."""
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"\n" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)


def read_all(reader: int, into: list[bytes]) -> threading.Thread:
    def read() -> None:
        while data := os.read(reader, 1 << 16):
            into.append(data)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def test_lines_come_out_in_order(pipe: tuple[int, int]) -> None:
    out = Outlet(pipe[1], note)
    for n in range(100):
        out.write(f"{n} \udcff é\n")
    assert out.drain(LONG)
    expected = "".join(f"{n} \\udcff é\n" for n in range(100)).encode()
    assert os.read(pipe[0], 1 << 16) == expected
    out.close()


def test_what_nobody_reads_is_dropped_and_counted(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    fill(writer)
    out = Outlet(writer, note, limit=50)
    begun = time.monotonic()
    for n in range(20_000):
        out.write(f"{n:0200d}\n")
    assert time.monotonic() - begun < LONG / 4
    assert not out.drain(0.01)
    chunks: list[bytes] = []
    read_all(reader, chunks)
    assert out.drain(LONG)
    out.write("later\n")
    assert out.drain(LONG)
    wait_for(lambda: b"".join(chunks).endswith(b"later\n"), LONG, "all is read")
    *lines, told, later = b"".join(chunks).split()
    assert [int(line) for line in lines] == list(range(len(lines)))
    assert (told, later) == (f"{20_000 - len(lines)}-dropped".encode(), b"later")
    assert len(lines) in (50, 51), "the queue, and perhaps the one that was being written"
    out.close()


def test_the_drop_is_told_even_if_nothing_more_is_logged(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    fill(writer)
    out = Outlet(writer, note, limit=10)
    for _ in range(50):
        out.write("x\n")
    chunks: list[bytes] = []
    read_all(reader, chunks)
    wait_for(lambda: b"".join(chunks).endswith(b"-dropped\n"), LONG, "the drop is told")
    out.close()


def test_a_pipe_set_to_non_blocking_loses_nothing(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.set_blocking(writer, False)
    out = Outlet(writer, note)
    text = "".join(f"{n:0500d}\n" for n in range(2_000))
    for line in text.splitlines(keepends=True):
        out.write(line)
    chunks: list[bytes] = []
    read_all(reader, chunks)
    assert out.drain(LONG)
    wait_for(lambda: b"".join(chunks) == text.encode(), LONG, "all is read")
    out.close()


def test_a_reader_that_left_is_no_error(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    out = Outlet(writer, note)
    os.close(reader)
    for _ in range(3):
        out.write("x\n")
        assert out.drain(LONG)
    out.close()


def test_lines_a_full_disk_refused_are_told_of_later(tmp_path: Path) -> None:
    target = os.open("/dev/full", os.O_WRONLY)
    out = Outlet(target, note)
    out.write("a\n")
    out.write("b\n")
    assert out.drain(LONG)
    room = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(room, target)
    out.write("c\n")
    assert out.drain(LONG)
    assert (tmp_path / "log").read_text() == "2-dropped\nc\n"
    out.close()
    assert out.write("") == 0
    os.close(room)
    os.close(target)


PROGRAM = """
import structlog, logging, sys
from reconciler import telemetry
telemetry.configure(json=True)
log = structlog.get_logger()
for n in range({count}):
    log.info("line", n=n, filler="x" * 200)
logging.getLogger("other").error("the last one")
print("done", flush=True)
"""


def program(count: int) -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(count=count)]


def test_what_is_queued_is_written_at_exit() -> None:
    done = subprocess.run(program(3_000), capture_output=True, text=True, timeout=LONG, check=True)
    *lines, last = done.stderr.splitlines()
    assert [f'"n": {n}, ' in line for n, line in enumerate(lines)] == [True] * 3_000
    assert "the last one" in last


def test_a_log_that_nobody_reads_holds_nothing_up() -> None:
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            program(12_000), stdout=subprocess.PIPE, stderr=writer, timeout=LONG, check=True
        )
        assert done.stdout == b"done\n"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full", "2> >(exec true)"])
def test_a_log_that_goes_nowhere_ends_nothing(redirect: str) -> None:
    argv = ["bash", "-c", f'"$@" {redirect}', "bash", *program(500)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=LONG, check=False)
    assert (done.stdout, done.returncode) == (b"done\n", 0)


@pytest.mark.parametrize("redirect", [">&-", "2>&-", ">&- 2>&-"])
def test_the_program_runs_with_closed_streams(redirect: str) -> None:
    code = "import sys; from reconciler.cli import main; sys.exit(main(['--version']))"
    argv = ["bash", "-c", f'"$@" {redirect}', "bash", sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stderr) == (0, "")
