"""Which GPU, which cores, how many threads: what a launch says of its device, as engines take it."""

import os
from typing import Final

import psutil

from reconciler.core.launch import LaunchSpec

#: Drivers read one of these each; a variable nobody reads does no harm.
_GPU_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
_THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


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
    return {} if gpus is None else dict.fromkeys(_GPU_VARIABLES, ",".join(gpus))


def thread_variables(spec: LaunchSpec) -> dict[str, str]:
    """Return the variables that bound the threads of numeric libraries, which take all cores by default."""
    return dict.fromkeys(_THREAD_VARIABLES, str(threads(spec)))
