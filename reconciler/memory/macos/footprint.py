"""`footprint`: what the memory of one process consists of. A look in depth, for people: 30-90 ms a process."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.memory.commands import Run, ask

_UNITS: Final = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_SIZE: Final = r"(\d{1,15}(?:\.\d{1,3})?) ([KMGT]?B)"
_HEADER: Final = re.compile(
    rf"^(.*) \[(\d{{1,10}})\]: .*\bFootprint: {_SIZE} \(\d+ bytes per page\)\s*$", re.ASCII
)
_NOW: Final = re.compile(rf"\bphys_footprint: {_SIZE}", re.ASCII)
_PEAK: Final = re.compile(rf"\bphys_footprint_peak: {_SIZE}", re.ASCII)
_SIZE_COLUMNS: Final = ("Dirty", "Clean", "Reclaimable")


@dataclass(frozen=True, slots=True)
class Category:
    """Memory of one kind: `MALLOC_LARGE`, `IOAccelerator (graphics)`, `mapped file`. Bytes, rounded by `footprint`."""

    name: str
    dirty: int
    #: Above all mapped files: weights that the footprint does not count.
    clean: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """What `footprint` says of one process, in bytes; None = it does not say."""

    pid: int
    name: str
    now: int | None
    peak: int | None
    categories: tuple[Category, ...] = ()


def footprint_command(pids: Sequence[int], *, categories: bool) -> tuple[str, ...]:
    """Return the argv that asks for `pids`. Only totals come in exact bytes, in any order of pids."""
    shape = () if categories else ("--noCategories",)
    return ("/usr/bin/footprint", "-f", "bytes", *shape, *(word for pid in pids for word in ("-p", str(pid))))


def parse_footprint(text: str, pids: Sequence[int]) -> tuple[Footprint, ...]:
    """Return what is said of `pids`, sorted; a pid that cannot be read, or is reported twice, is left out.

    `footprint -p 1` falls back on a process whose *name* contains "1" when it may not read pid 1, and reports that
    stranger. Only the pid in brackets tells whose figures these are, so a block without one is nobody's.
    """
    found: dict[int, list[Footprint]] = {}
    for block in _blocks(text.split("\n")):
        found.setdefault(block.pid, []).append(block)
    return tuple(found[pid][0] for pid in sorted(set(pids)) if len(found.get(pid, ())) == 1)


def read_footprints(
    run: Run, pids: Sequence[int], *, categories: bool = True
) -> tuple[tuple[Footprint, ...], str | None]:
    """Run `footprint` for `pids`: what it says, and a sentence if it failed for any. Blocks up to 2 s."""
    if not pids:
        return (), None
    text, problem = ask(run, footprint_command(pids, categories=categories), partial=True)
    return parse_footprint(text or "", pids), problem


def parse_categories(lines: Sequence[str]) -> tuple[Category, ...]:
    """Return the rows of the table in `lines`, in their order; () if there is no table."""
    categories: list[Category] = []
    row: re.Pattern[str] | None = None
    for line in lines:
        words = line.split()
        if words[:2] == ["Dirty", "Clean"] and words[-1] == "Category":
            row = _row_pattern(words)
        elif row is not None and (cells := row.match(line)):
            dirty, clean = _bytes(cells[1], cells[2]), _bytes(cells[3], cells[4])
            categories.append(Category(cells["name"], dirty, clean))
    return tuple(categories)


def _row_pattern(columns: Sequence[str]) -> re.Pattern[str]:
    sizes = r"\s+".join(_SIZE for name in columns if name in _SIZE_COLUMNS)
    regions = r"\s+\d+" if "Regions" in columns else ""
    return re.compile(rf"^\s*{sizes}{regions}\s+(?P<name>\S.*?)\s*$", re.ASCII)


def _blocks(lines: Sequence[str]) -> Iterator[Footprint]:
    headers = [(i, head) for i, line in enumerate(lines) if (head := _HEADER.match(line))]
    ends = [*(i for i, _ in headers), len(lines)][1:]
    for (start, head), end in zip(headers, ends, strict=True):
        body = lines[start + 1 : end]
        text = "\n".join(body)
        now = _search(_NOW, text)
        # The header's own figure leaves out what the process owns without mapping it.
        yield Footprint(int(head[2]), head[1], now, _search(_PEAK, text), parse_categories(body))


def _search(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return _bytes(found[1], found[2]) if found else None


def _bytes(amount: str, unit: str) -> int:
    return round(float(amount) * _UNITS[unit])
