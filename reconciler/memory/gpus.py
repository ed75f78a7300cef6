"""How many GPUs a machine has, as far as its kernel says so without a driver being asked."""

import re
from pathlib import Path
from typing import Final

from reconciler.memory.jetson import Jetson
from reconciler.memory.procfs import read_text

_NVIDIA: Final = "0x10de"
#: Makers of GPUs that models compute on; others only draw (the display of a server's management board).
_COMPUTE: Final = frozenset({"0x1002", "0x8086", _NVIDIA})
#: Windows hands its GPUs to Linux through this file, and says nothing of them in /proc or /sys.
_WSL: Final = "dev/dxg"


def count_gpus(root: Path = Path("/")) -> int | None:
    """Return how many GPUs any program could count here, of all makers together; None = it cannot be told.

    A driver counts its own only, so a number below this may still be none of that driver's; one from it on is nobody's.
    Blocks for a few small reads.
    """
    if (root / _WSL).exists() or Jetson.is_here(root):
        return None
    vendors = [
        (read_text(folder / "device/vendor") or "").strip()
        for folder in sorted((root / "sys/class/drm").glob("card*"))
        if re.fullmatch(r"card[0-9]+", folder.name)
    ]
    others = sum(vendor in _COMPUTE - {_NVIDIA} for vendor in vendors)
    # NVIDIA's driver shows its GPUs to the kernel's graphics only if it was told to.
    own = len(sorted((root / "proc/driver/nvidia/gpus").glob("*/information")))
    return others + max(own, vendors.count(_NVIDIA))
