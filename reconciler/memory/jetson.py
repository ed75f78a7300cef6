"""NVIDIA Jetson boards: the kernel states what the GPU driver holds in all, but not for whom."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from reconciler.core.memory import GpuPool
from reconciler.memory.procfs import read_text

_USED: Final = re.compile(r"^NvMapMemUsed:[ \t]*(.*)$", re.MULTILINE)
_KIB: Final = re.compile(r"([0-9]{1,18})[ \t]+kB")


class Jetson:
    """`DeviceProbe` of boards whose `/proc/meminfo` has `NvMapMemUsed` (Orin and before; Thor has NVML instead)."""

    name = "jetson"

    def __init__(self, root: Path = Path("/")) -> None:
        self._meminfo = root / "proc/meminfo"
        self._problems: dict[str, tuple[str, ...]] = {}

    @staticmethod
    def is_here(root: Path = Path("/")) -> bool:
        """Return whether this machine states what the driver holds. Blocks for one small read."""
        return _USED.search(read_text(root / "proc/meminfo") or "") is not None

    def pool(self) -> GpuPool | None:
        """Return what the driver holds in all, in bytes. There is no ceiling: it may take all memory there is."""
        used, self._problems["pool"] = self._used()
        return None if used is None else GpuPool(None, used, "NvMapMemUsed of /proc/meminfo")

    def held(self, pids: Collection[int]) -> Mapping[int, int] | None:
        """Return {} while the driver holds nothing for anybody, else None: it does not say for whom it does."""
        if not pids:
            self._problems["held"] = ()
            return {}
        used, self._problems["held"] = self._used()
        if used == 0:
            return {}
        if used is not None:
            self._problems["held"] = ("jetson: the driver does not say which process holds GPU memory",)
        return None

    def problems(self) -> tuple[str, ...]:
        """Return one sentence for each thing that the last calls could not tell."""
        return tuple(dict.fromkeys(line for key in sorted(self._problems) for line in self._problems[key]))

    def _used(self) -> tuple[int | None, tuple[str, ...]]:
        line = _USED.search(read_text(self._meminfo) or "")
        if line is None:
            return None, ("jetson: /proc/meminfo does not state NvMapMemUsed",)
        size = _KIB.fullmatch(line[1].strip())
        if size is None:
            return None, ("jetson: NvMapMemUsed of /proc/meminfo is not a size",)
        return int(size[1]) * 1024, ()
