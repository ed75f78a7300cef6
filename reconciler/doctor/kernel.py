"""Settings of the Linux kernel that change how memory behaves."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reconciler.doctor.finding import Finding, cannot_tell, note, ok, warning
from reconciler.memory.procfs import read_text

_SWAPPINESS: Final = "proc/sys/vm/swappiness"
_OVERCOMMIT: Final = "proc/sys/vm/overcommit_memory"
_PRESSURE: Final = "proc/pressure/memory"
_HUGE_PAGES: Final = "sys/kernel/mm/transparent_hugepage/enabled"
#: The kernel's own default; above it even pages in use are swapped out to keep files cached.
USUAL_SWAPPINESS: Final = 60


class Kernel:
    """Reads below `root`, where `proc/` and `sys/` are looked for. Blocks briefly, raises nothing."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def check(self) -> Iterator[Finding]:
        """Yield what is to be said of overcommitting, pressure information and huge pages."""
        yield from self._overcommit()
        yield from self._pressure()
        yield from self._huge_pages()

    def swap_devices(self) -> tuple[str, ...]:
        """Return the files and devices that are swapped to, sorted."""
        lines = (read_text(self._root / "proc/swaps") or "").splitlines()[1:]
        return tuple(sorted(words[0] for line in lines if (words := line.split())))

    def check_swappiness(self) -> Iterator[Finding]:
        """Yield how eagerly the kernel swaps."""
        value = self._number(_SWAPPINESS)
        if value is None:
            yield self._unread("swappiness", _SWAPPINESS)
        elif value > USUAL_SWAPPINESS:
            yield note(
                "swappiness",
                f"{value}: the kernel swaps out models rather than drop cached files",
                "sysctl vm.swappiness=10 keeps them in memory",
            )
        else:
            yield ok("swappiness", str(value))

    def _overcommit(self) -> Iterator[Finding]:
        value = self._number(_OVERCOMMIT)
        if value is None:
            yield self._unread("overcommit", _OVERCOMMIT)
        elif value == 2:
            yield warning(
                "overcommit",
                "strict (2): a model may fail to load while much memory is free",
                "sysctl vm.overcommit_memory=0",
            )
        else:
            yield ok("overcommit", {0: "heuristic (0)", 1: "always (1)"}.get(value, str(value)))

    def _pressure(self) -> Iterator[Finding]:
        if re.match(r"some avg10=", read_text(self._root / _PRESSURE) or ""):
            yield ok("pressure", f"/{_PRESSURE} tells how long tasks wait for memory")
        else:
            yield note(
                "pressure",
                f"cannot tell: /{_PRESSURE} says nothing, so waiting for memory is not seen",
                "boot with psi=1; the use of memory and of swap is watched all the same",
            )

    def _huge_pages(self) -> Iterator[Finding]:
        found = re.search(r"\[(\w+)\]", read_text(self._root / _HUGE_PAGES) or "")
        if found is None:
            yield self._unread("huge pages", _HUGE_PAGES)
        elif found[1] == "always":
            yield note(
                "huge pages", "always: processes may hold up to 2 MiB more for each of their areas of memory"
            )
        else:
            yield ok("huge pages", found[1])

    def _number(self, name: str) -> int | None:
        text = (read_text(self._root / name) or "").strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def _unread(self, topic: str, name: str) -> Finding:
        return cannot_tell(topic, f"/{name} cannot be read as it should")
