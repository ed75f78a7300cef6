"""What the command line says."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """One worker. Paths are absolute."""

    entry: str
    port: int
    role: str
    name: str
    host: str = "127.0.0.1"
    weights: str | None = None
    device: str = "auto"
    threads: int | None = None
    #: Bytes the framework's allocator may hold; None = as it likes.
    memory_limit: int | None = None
    context_tokens: int | None = None
    #: Items in one call of the class at most, and seconds the first of them waits for others.
    batch_max: int = 32
    batch_wait: float = 0.0
    #: The one folder that states may be saved to and read from.
    saves: str | None = None
    #: What the manifest's `args` say; for the class alone.
    args: tuple[str, ...] = ()


def parse(argv: Sequence[str]) -> Settings:
    """Return the settings; a bad command line ends the process with status 2."""
    parser = argparse.ArgumentParser(prog="worker", allow_abbrev=False)
    parser.add_argument("--entry", required=True, metavar="package.module:Class")
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--role", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--weights")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu"))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--memory-limit", type=int, metavar="BYTES")
    parser.add_argument("--context-tokens", type=int)
    parser.add_argument("--batch-max", type=int, default=32)
    parser.add_argument("--batch-wait", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--saves", metavar="FOLDER")
    parser.add_argument("args", nargs="*")
    given = vars(parser.parse_args(argv))
    return Settings(**{**given, "args": tuple(given["args"])})
