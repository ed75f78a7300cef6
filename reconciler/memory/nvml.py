"""The NVIDIA driver asked through its library (NVML), by the optional package `nvidia-ml-py` (extra `nvidia`)."""

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from reconciler.memory.nvidia_driver import DriverError, Gpu, add_up, is_integrated, own_memory

T = TypeVar("T")

_NOT_SUPPORTED: Final = 3
#: Above it a figure is the library's mark for "not available".
_MOST: Final = 2**63


def import_nvml() -> Any:
    """Return the module of `nvidia-ml-py`. Raises ImportError; the driver itself is not touched yet."""
    return importlib.import_module("pynvml")


class Nvml:
    """`Driver` through NVML. `load` gives the module and is called at the first use only."""

    def __init__(self, load: Callable[[], Any] = import_nvml) -> None:
        self._load = load
        self._nvml: Any = None

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs. Raises DriverError; may hang with the driver."""
        return self._ask(lambda nvml: tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())))

    def processes(self, keys: Collection[str]) -> Mapping[int, int | None]:
        """Return what processes hold on these GPUs, in bytes by pid. Raises DriverError; may hang with the driver.

        Memory that is allocated as managed (cudaMallocManaged) is not all in these figures.
        """
        return self._ask(lambda nvml: add_up(_on_gpu(nvml, int(key)) for key in sorted(keys)))

    def _ask(self, question: Callable[[Any], T]) -> T:
        try:
            if self._nvml is None:
                nvml = self._load()
                nvml.nvmlInit()
                self._nvml = nvml
            return question(self._nvml)
        except ImportError:
            raise DriverError("the package nvidia-ml-py is not installed") from None
        except DriverError:
            raise
        except Exception as error:
            # Begun anew next time: after an update of the driver the old connection stays broken.
            self._nvml = None
            raise DriverError(f"NVML: {type(error).__name__}: {error}") from error


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    name = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    total = _stated(nvml, lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total))
    if not total and not is_integrated(name):
        # A GPU that shares memory has no window onto memory of its own either; a card does.
        window = _stated(nvml, lambda: int(nvml.nvmlDeviceGetBAR1MemoryInfo(handle).bar1Total))
        if window:
            raise DriverError(f"NVML does not say whether {name} has memory of its own")
    return Gpu(str(index), name, own_memory(name, total))


def _stated(nvml: Any, read: Callable[[], int]) -> int | None:
    """Return what NVML states, or None if it says that there is nothing to state."""
    try:
        return read()
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == _NOT_SUPPORTED:
            return None
        raise


def _on_gpu(nvml: Any, index: int) -> dict[int, int | None]:
    """Return the bytes by pid on one GPU. A process that computes and draws is in both lists with one figure."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    lists = [nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    try:
        lists.append(nvml.nvmlDeviceGetGraphicsRunningProcesses(handle))
    except nvml.NVMLError as error:
        if getattr(error, "value", None) != _NOT_SUPPORTED:
            raise
    found: dict[int, int | None] = {}
    for process in (process for each in lists for process in each):
        pid, size = int(process.pid), _bytes(process.usedGpuMemory)
        before = found.get(pid, 0)
        found[pid] = None if size is None or before is None else max(before, size)
    return found


def _bytes(size: object) -> int | None:
    return size if isinstance(size, int) and 0 <= size < _MOST else None
