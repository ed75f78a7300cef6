"""The NVIDIA driver asked through its command, where the package for its library is not installed.

Costs a process each time; lists what computes only, not what draws (Vulkan).
"""

from collections.abc import Collection, Mapping
from typing import Final

from reconciler.memory.commands import Run, ask
from reconciler.memory.nvidia_driver import DriverError, Gpu, add_up, own_memory

_MIB: Final = 1024**2
_SILENT: Final = frozenset({"[n/a]", "n/a", "[not supported]", "not supported", "[insufficient permissions]"})


class NvidiaSmi:
    """`Driver` through `nvidia-smi`; `run` starts it."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs. Raises DriverError."""
        found: list[Gpu] = []
        for cells in self._rows("--query-gpu=uuid,name,memory.total", 3):
            key, name = cells[0], ", ".join(cells[1:-1])
            found.append(Gpu(key, name, own_memory(name, parse_mib(cells[-1]))))
        return tuple(found)

    def processes(self, keys: Collection[str]) -> Mapping[int, int | None]:
        """Return what processes hold on these GPUs, in bytes by pid. Raises DriverError."""
        readings: list[Mapping[int, int | None]] = []
        for cells in self._rows("--query-compute-apps=gpu_uuid,pid,used_memory", 3):
            if not (cells[1].isascii() and cells[1].isdecimal() and len(cells[1]) < 10):
                raise DriverError(f"nvidia-smi: {cells[1][:40]!r} is not a process id")
            if cells[0] in keys:
                readings.append({int(cells[1]): parse_mib(cells[-1])})
        return add_up(readings)

    def _rows(self, query: str, least: int) -> list[list[str]]:
        text, problem = ask(self._run, ("nvidia-smi", query, "--format=csv,noheader,nounits"))
        if text is None:
            raise DriverError(problem or "nvidia-smi printed nothing")
        rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
        for cells in rows:
            if len(cells) < least:
                raise DriverError(f"nvidia-smi: {','.join(cells)[:60]!r} is not understood")
        return rows


def parse_mib(cell: str) -> int | None:
    """Return a size in bytes, None where the driver says that it does not tell. Raises DriverError for the rest.

    >>> parse_mib("6265 MiB") == parse_mib("6265") == 6265 * 1024**2, parse_mib("[N/A]")
    (True, None)
    """
    if cell.lower() in _SILENT:
        return None
    number = cell.removesuffix("MiB").strip()
    if number.isascii() and number.isdecimal() and len(number) <= 12:
        return int(number) * _MIB
    raise DriverError(f"nvidia-smi: {cell[:40]!r} is not a size")
