"""Pressure stall information: how much of the last ten seconds tasks waited for memory."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reconciler.memory.procfs import read_text

_LINE = re.compile(r"^(some|full) avg10=([0-9]{1,3}\.[0-9]{1,4}) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pressure:
    """Percent of the last 10 s in which some, and all, tasks waited; None = unknown."""

    some: float | None = None
    full: float | None = None
    problems: tuple[str, ...] = ()


def read_pressure(paths: Iterable[Path]) -> Pressure:
    """Return the worst of several pressure files. Blocks briefly, raises nothing.

    Our own group may stall while the machine does not, and the machine while our group has room: both slow us
    down. A file that is not there or that the kernel refuses (PSI is off) says nothing; that is no problem.
    """
    some: list[float] = []
    full: list[float] = []
    problems: list[str] = []
    for path in paths:
        text = read_text(path)
        if text is None:
            continue
        shares = {kind: float(share) for kind, share in _LINE.findall(text)}
        if shares.keys() != {"some", "full"} or max(shares.values()) > 100:
            problems.append(f"{path} cannot be understood: {text[:40]!r}")
            continue
        some.append(shares["some"])
        full.append(shares["full"])
    return Pressure(max(some, default=None), max(full, default=None), tuple(problems))
