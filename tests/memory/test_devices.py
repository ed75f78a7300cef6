"""Which device probes a machine has, and the one of Jetson boards."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fake_nvml import FakeGpu, FakeNvml
from reconciler.core.memory import GpuPool
from reconciler.memory.commands import Output
from reconciler.memory.devices import find_devices
from reconciler.memory.jetson import Jetson

GIB = 1024**3
AMD = {
    "sys/class/drm/card0/device/vendor": "0x1002\n",
    "sys/class/drm/card0/device/mem_info_gtt_total": "9\n",
}
NODE = {"dev/nvidiactl": ""}
MODULE = {"proc/driver/nvidia/version": "NVRM version\n"}
JETSON = {"proc/meminfo": "MemTotal:  65000000 kB\nNvMapMemUsed:  4194304 kB\n"}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def must_not_start(argv: Sequence[str], timeout: float) -> Output:
    raise AssertionError(f"{argv} was started")


def must_not_load() -> Any:
    raise AssertionError("NVML was loaded")


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"proc/meminfo": "MemTotal:  65000000 kB\n"}, []),
        (AMD, ["amdgpu"]),
        (NODE, ["nvidia"]),
        (MODULE, ["nvidia"]),
        (AMD | NODE, ["amdgpu", "nvidia"]),
        (JETSON, ["jetson"]),
        # The driver of these boards has the node too, and says less.
        (JETSON | NODE, ["jetson"]),
    ],
)
def test_a_machine_has_the_probes_of_its_drivers_and_finding_them_asks_nobody(
    tmp_path: Path, files: dict[str, str], names: list[str]
) -> None:
    devices = find_devices(write(tmp_path, files), run=must_not_start, load_nvml=must_not_load)
    assert [device.name for device in devices] == names
    assert [device.problems() for device in devices] == [()] * len(names)


def test_the_nvidia_probe_asks_the_library_that_is_given(tmp_path: Path) -> None:
    nvml = FakeNvml([FakeGpu("NVIDIA GB10", compute=[(7, GIB)])])
    (device,) = find_devices(write(tmp_path, NODE), run=must_not_start, load_nvml=lambda: nvml)
    assert device.held([7]) == {7: GIB}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /sys")
def test_this_machine() -> None:
    for device in find_devices(run=must_not_start):
        assert device.name in ("amdgpu", "nvidia", "jetson")


def test_a_jetson_states_the_sum_and_not_whose_it_is(tmp_path: Path) -> None:
    probe = Jetson(write(tmp_path, JETSON))
    assert probe.pool() == GpuPool(None, 4 * GIB, "NvMapMemUsed of /proc/meminfo")
    assert probe.held([]) == {}
    assert probe.problems() == ()
    assert probe.held([7]) is None
    assert probe.problems() == ("jetson: the driver does not say which process holds GPU memory",)


def test_a_jetson_that_holds_nothing_holds_nothing_for_anybody(tmp_path: Path) -> None:
    probe = Jetson(write(tmp_path, {"proc/meminfo": "NvMapMemUsed:        0 kB\n"}))
    assert probe.held([7]) == {}
    assert probe.problems() == ()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(st.binary(max_size=80), st.binary(max_size=20).map(lambda tail: b"NvMapMemUsed: " + tail))
)
def test_garbage_raises_nothing_and_unknown_has_a_reason(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "proc/meminfo"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    probe = Jetson(tmp_path)
    pool = probe.pool()
    assert bool(probe.problems()) is (pool is None)
    if probe.held([7]) is None:
        assert probe.problems()
