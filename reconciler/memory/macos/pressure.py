"""How pressed macOS is: the level its kernel states, the rule behind it, and `memory_pressure -Q`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.memory.commands import Run, ask
from reconciler.memory.macos.sysctl import number
from reconciler.memory.macos.vm_stat import VmStat

LEVEL: Final = "kern.memorystatus_vm_pressure_level"
NORMAL: Final = 1
WARNING: Final = 2
CRITICAL: Final = 4

GAUGE_COMMAND: Final = ("/usr/bin/memory_pressure", "-Q")
_TOTAL: Final = re.compile(r"^The system has (\d{1,20}) \(", re.MULTILINE | re.ASCII)
_LEFT: Final = re.compile(r"^System-wide memory free percentage: (\d{1,3})%", re.MULTILINE | re.ASCII)


def stated_level(values: Mapping[str, str]) -> int | None:
    """Return the kernel's pressure level: 1 normal, 2 warning, 4 critical; None = it states none of these."""
    level = number(values, LEVEL)
    return level if level in (NORMAL, WARNING, CRITICAL) else None


def compressor_share(stat: VmStat) -> float | None:
    """Return C / (A + C): C pages of the compressor, A all that are neither wired nor the compressor's.

    This is what XNU judges the level by. It is late: with a third of the memory compressed all is still normal.
    """
    compressor = stat.compressed
    others = stat.bytes_of("Pages free", "Pages active", "Pages inactive", "Pages speculative")
    if compressor is None or others is None or compressor + others == 0:
        return None
    return compressor / (compressor + others)


def likely_level(stat: VmStat) -> int | None:
    """Return the level XNU would state on a Mac of more than 3 GB: warning above 1/2, critical above 2/3.

    Only for when it does not say: the kernel also remembers where it comes from (back at 40 and 60 %).
    """
    share = compressor_share(stat)
    if share is None:
        return None
    if share > 2 / 3:
        return CRITICAL
    return WARNING if share > 1 / 2 else NORMAL


@dataclass(frozen=True, slots=True)
class Gauge:
    """What `memory_pressure` says: bytes of the machine, and the share (percent) not wired and not compressed.

    The command calls that share free memory. It is not: it contains all that programs actively use, and read 87 %
    on a Mac whose unused memory was 1 %. It shows how far away pressure is, and is never to be made into bytes.
    """

    total: int
    percent: int


def parse_memory_pressure(text: str) -> Gauge | None:
    """Return what `memory_pressure`, with or without `-Q`, says, or None if it says something else.

    The bytes stand first; the number of pages and their size behind them do not always agree with it.
    """
    total, left = _TOTAL.search(text), _LEFT.search(text)
    if total is None or left is None or int(total[1]) == 0 or int(left[1]) > 100:
        return None
    return Gauge(int(total[1]), int(left[1]))


def read_gauge(run: Run) -> tuple[Gauge | None, str | None]:
    """Run `memory_pressure -Q`: the gauge, or None and a sentence that says why not. Blocks."""
    text, problem = ask(run, GAUGE_COMMAND)
    if text is None:
        return None, problem
    gauge = parse_memory_pressure(text)
    return gauge, None if gauge else "memory_pressure printed something that is not understood"
