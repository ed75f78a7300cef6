"""Stands in for the module of nvidia-ml-py: GPUs with the figures that real ones gave."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

NOT_SUPPORTED, GPU_IS_LOST, UNKNOWN = 3, 15, 999


class NVMLError(Exception):
    """As in the real module: `value` is the library's error code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


@dataclass
class FakeGpu:
    """One GPU; None for a size = not supported. Processes are (pid, bytes or None)."""

    name: str | bytes
    total: int | None = None
    window: int | None = None
    compute: Sequence[tuple[int, int | None]] = ()
    graphics: Sequence[tuple[int, int | None]] | None = ()


@dataclass
class FakeNvml:
    """The part of the module that is used. `calls` counts by name; `fault` is raised by every call but the import."""

    gpus: list[FakeGpu] = field(default_factory=list)
    fault: Exception | None = None
    calls: list[str] = field(default_factory=list)
    NVMLError: type[NVMLError] = NVMLError

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.fault is not None:
            raise self.fault

    def nvmlInit(self) -> None:  # noqa: N802
        self._called("init")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._called("count")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        self._called("handle")
        return self.gpus[index]

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str | bytes:  # noqa: N802
        self._called("name")
        return gpu.name

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> SimpleNamespace:  # noqa: N802
        self._called("memory")
        return SimpleNamespace(total=_supported(gpu.total))

    def nvmlDeviceGetBAR1MemoryInfo(self, gpu: FakeGpu) -> SimpleNamespace:  # noqa: N802
        self._called("window")
        return SimpleNamespace(bar1Total=_supported(gpu.window))

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[SimpleNamespace]:  # noqa: N802
        self._called("compute")
        return _processes(gpu.compute)

    def nvmlDeviceGetGraphicsRunningProcesses(self, gpu: FakeGpu) -> list[SimpleNamespace]:  # noqa: N802
        self._called("graphics")
        if gpu.graphics is None:
            raise NVMLError(NOT_SUPPORTED)
        return _processes(gpu.graphics)


def _supported(size: int | None) -> int:
    if size is None:
        raise NVMLError(NOT_SUPPORTED)
    return size


def _processes(processes: Sequence[tuple[int, int | None]]) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in processes]
