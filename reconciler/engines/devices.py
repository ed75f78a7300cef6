"""Which GPU, which cores, how many threads: what a launch says of its device, as engines take it."""

import os
import platform
from dataclasses import replace
from functools import cache
from typing import Final

import psutil

from reconciler.core.launch import LaunchSpec, LoadMode
from reconciler.engines.base import Command

#: Each driver reads one of these; a variable nobody reads does no harm. The value hides all GPUs: HIP and Level Zero
#: take an empty one for unset, Vulkan in llama.cpp ends at a number that is not there.
_GPU_VARIABLES: Final = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    "GGML_VK_VISIBLE_DEVICES": "",
    "ZE_AFFINITY_MASK": "65535",
}
#: These take a GPU's own name (GPU-8a3c...) as well; the others know numbers only.
_NAMED: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
#: Numbers are those of nvidia-smi; by itself CUDA counts the fastest GPU first.
_ORDER: Final = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
#: Filters below HIP's own: inherited, they would have it count among those they leave.
_OTHER_FILTERS: Final = ("ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
#: PyTorch accepts no larger share of the working set.
_MOST_SHARE: Final = 2.0
#: From this part of its limit on, PyTorch looks for memory to give back.
_LOW: Final = 0.9


def threads(spec: LaunchSpec) -> int:
    """Return how many threads a model computes with: as stated, else the physical cores it may use."""
    if spec.device.threads is not None:
        return spec.device.threads
    # Two threads on one core slow a matrix product down; more threads than cores stop it.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if spec.device.cpus:
        usable = len(spec.device.cpus)
    return max(1, min(usable, psutil.cpu_count(logical=False) or usable))


def gpu_variables(spec: LaunchSpec) -> dict[str, str]:
    """Return the variables that show a process the GPUs it may use; empty where all are allowed."""
    gpus = spec.device.gpus
    if gpus is None:
        return {}
    if not gpus:
        return dict(_GPU_VARIABLES)
    known = _GPU_VARIABLES if all(gpu.isdecimal() for gpu in gpus) else _NAMED
    return {**_ORDER, **dict.fromkeys(known, ",".join(gpus))}


def thread_variables(spec: LaunchSpec) -> dict[str, str]:
    """Return the variables that bound the threads of numeric libraries, which take all cores by default."""
    return dict.fromkeys(_THREAD_VARIABLES, str(threads(spec)))


def allocator_variables(spec: LaunchSpec, working_set: int | None) -> dict[str, str]:
    """Return the variables that keep PyTorch on the GPU of a Mac to `memory.limit`.

    `working_set` is what Metal recommends, in bytes; None = there is no Metal, and nothing that could be told so.
    """
    if spec.allocator_limit is None or not working_set:
        return {}
    high = min(spec.allocator_limit / working_set, _MOST_SHARE)
    # 0 would mean no limit. A low mark above the high one, which is what it is by default, ends the program.
    high = max(high, 0.001)
    return {
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO": f"{high:.4f}",
        "PYTORCH_MPS_LOW_WATERMARK_RATIO": f"{high * _LOW:.4f}",
    }


@cache
def working_set() -> int | None:
    """Return what Metal recommends to use, in bytes; None where there is no Metal. Asked once."""
    if platform.system() != "Darwin":
        return None
    from reconciler.memory.macos.gpu import metal_working_set

    return metal_working_set()


def on_device(command: Command, spec: LaunchSpec) -> Command:
    """Return the command with everything the launch says of its device, whichever engine made it.

    What the engine or the manifest's `env` sets stays as it is.
    """
    own = {**gpu_variables(spec), **allocator_variables(spec, working_set())}
    if spec.device.threads is not None:
        own |= thread_variables(spec)
    filters = () if spec.device.gpus is None else _OTHER_FILTERS
    return replace(
        command,
        env={**own, **command.env},
        without=(*command.without, *(name for name in filters if name not in command.without)),
        cpus=command.cpus or spec.device.cpus,
        nice=command.nice or spec.device.nice,
        locks=command.locks or spec.load_mode is LoadMode.MLOCK,
        limits=spec.limits,
    )
