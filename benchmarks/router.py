"""llama.cpp's own router mode, where a `llama-server` is at hand: the peer that is measured in the same run."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from benchmarks.manager import START_SECONDS, end
from support import free_port, healthy, wait_for

#: Names the program, where it is not on PATH.
VARIABLE: Final = "LLAMA_SERVER"


def find() -> str | None:
    """Return the path of a `llama-server`, or None."""
    return os.environ.get(VARIABLE) or shutil.which("llama-server")


def engine_port(port: int) -> int:
    """Return the port of the model that the router on `port` has loaded."""
    listening = {
        c.laddr.port: c.pid
        for c in psutil.net_connections("tcp")
        if c.status == psutil.CONN_LISTEN and c.laddr
    }
    children = {child.pid for child in psutil.Process(listening[port]).children(recursive=True)}
    return next(number for number, pid in sorted(listening.items()) if pid in children)


@contextmanager
def router(
    program: str, models: Path, log: Path, *options: str, env: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Run the router over a folder of GGUF files until the block ends; yield its port. One model at a time."""
    port = free_port()
    command = [program, "--host", "127.0.0.1", "--port", str(port), "--models-dir", str(models)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--models-max", "1", *options],
            stdout=out,
            stderr=out,
            env={**os.environ, **(env or {})},
        )
    try:
        wait_for(lambda: healthy(port) or process.poll() is not None, START_SECONDS, "the router answers")
        if process.poll() is not None:
            raise RuntimeError(log.read_text(encoding="utf-8", errors="replace")[-2000:])
        yield port
    finally:
        end(process)
