"""Which GPUs of this machine hold memory that no process is charged for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from reconciler.memory.amdgpu import AmdGpu, find_cards
from reconciler.memory.commands import Run, no_commands
from reconciler.memory.jetson import Jetson
from reconciler.memory.nvidia import Nvidia
from reconciler.memory.nvidia_smi import NvidiaSmi
from reconciler.memory.nvml import Nvml, import_nvml
from reconciler.memory.probe import DeviceProbe

_NVIDIA: Final = ("dev/nvidiactl", "proc/driver/nvidia/version")


def find_devices(
    root: Path = Path("/"), *, run: Run = no_commands, load_nvml: Callable[[], Any] = import_nvml
) -> tuple[DeviceProbe, ...]:
    """Return the probes that this machine needs, by name. Blocks for a few small reads; asks no driver yet.

    `root` is where `dev/`, `proc/` and `sys/` are looked for. `run` starts `nvidia-smi` where the package
    `nvidia-ml-py` is missing or fails; where there is no NVIDIA driver nothing is ever started.
    """
    probes: list[DeviceProbe] = []
    if find_cards(root):
        probes.append(AmdGpu(root))
    if Jetson.is_here(root):
        # These boards have an NVIDIA driver of another kind, which names no process: one account of it is enough.
        probes.append(Jetson(root))
    elif any((root / name).exists() for name in _NVIDIA):
        probes.append(Nvidia((Nvml(load_nvml), NvidiaSmi(run)), root))
    return tuple(probes)
