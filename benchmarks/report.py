"""What a benchmark hands over, and the table that is printed of it."""

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADINGS: Final = ("what", "measured", "goal", "met", "against, in the same run", "ratio")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `met` None = there is no goal; `reference` says what `ratio` divides by."""

    what: str
    measured: str
    reference: str
    ratio: float
    goal: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the columns."""
        verdict = "" if self.met is None else "yes" if self.met else "NO"
        return (self.what, self.measured, self.goal, verdict, self.reference, f"{self.ratio:.3g}")


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a Markdown table whose columns are also aligned for the eye."""
    rows = [_HEADINGS, *(figure.cells for figure in figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def machine() -> str:
    """Return one line about the machine: without it no figure means anything."""
    load = os.getloadavg()[0]
    return (
        f"{_cpu()}, {os.cpu_count()} cores, load {load:.1f} at the start; "
        f"{platform.system()} {platform.release()}; {platform.python_implementation()} {platform.python_version()}"
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def progress(text: str) -> None:
    """Say on stderr what is being measured: some of it takes a while."""
    print(f"  {text}", file=sys.stderr, flush=True)
