"""What a process is told of the GPUs it may use, of its threads and of its allocator, whichever driver reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.launch import Device, LaunchSpec, LoadMode
from reconciler.engines import devices
from reconciler.engines.base import Command
from reconciler.engines.devices import allocator_variables, gpu_variables, on_device

GIB = 1 << 30


def spec(
    device: Device | None = None, *, limit: int | None = None, mode: LoadMode = LoadMode.AUTO
) -> LaunchSpec:
    return LaunchSpec("m", "command", device=device or Device(), allocator_limit=limit, load_mode=mode)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (None, {}),
        # To HIP and Level Zero an empty text means all; Vulkan in llama.cpp ends at a number that is not there.
        (
            (),
            {
                "CUDA_VISIBLE_DEVICES": "-1",
                "HIP_VISIBLE_DEVICES": "-1",
                "GGML_VK_VISIBLE_DEVICES": "",
                "ZE_AFFINITY_MASK": "65535",
            },
        ),
        (
            ("1", "0"),
            {
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "1,0",
                "HIP_VISIBLE_DEVICES": "1,0",
                "GGML_VK_VISIBLE_DEVICES": "1,0",
                "ZE_AFFINITY_MASK": "1,0",
            },
        ),
        (
            ("GPU-8a3c",),
            {
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "GPU-8a3c",
                "HIP_VISIBLE_DEVICES": "GPU-8a3c",
            },
        ),
    ],
)
def test_gpus(gpus: tuple[str, ...] | None, expected: dict[str, str]) -> None:
    assert gpu_variables(spec(Device(gpus))) == expected


@pytest.mark.parametrize(
    ("limit", "working_set", "expected"),
    [
        (None, 96 * GIB, None),
        (24 * GIB, None, None),
        (24 * GIB, 0, None),
        (24 * GIB, 96 * GIB, ("0.2500", "0.2250")),
        # PyTorch takes at most 2, and 0 for no limit at all.
        (960 * GIB, 96 * GIB, ("2.0000", "1.8000")),
        (0, 96 * GIB, ("0.0010", "0.0009")),
    ],
)
def test_the_limit_of_the_allocator_on_a_mac(
    limit: int | None, working_set: int | None, expected: tuple[str, str] | None
) -> None:
    names = ("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "PYTORCH_MPS_LOW_WATERMARK_RATIO")
    wanted = {} if expected is None else dict(zip(names, expected, strict=True))
    assert allocator_variables(spec(limit=limit), working_set) == wanted


@given(limit=st.integers(0, 1 << 45), working_set=st.integers(1, 1 << 40))
def test_pytorch_accepts_every_limit(limit: int, working_set: int) -> None:
    found = allocator_variables(spec(limit=limit), working_set)
    high, low = (float(found[f"PYTORCH_MPS_{name}_WATERMARK_RATIO"]) for name in ("HIGH", "LOW"))
    assert 0 < low <= high <= 2


def test_every_command_gets_what_the_launch_says_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "working_set", lambda: 10 * GIB)
    launch = spec(Device(("0",), (1, 2), 5, 3), limit=5 * GIB, mode=LoadMode.MLOCK)
    made = on_device(Command(("server",), "/", {"A": "b", "ZE_AFFINITY_MASK": "own"}, ("GGML_",)), launch)
    assert made == Command(
        ("server",),
        "/",
        {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": "0",
            "HIP_VISIBLE_DEVICES": "0",
            "GGML_VK_VISIBLE_DEVICES": "0",
            # What the engine or the manifest sets rules.
            "ZE_AFFINITY_MASK": "own",
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.5000",
            "PYTORCH_MPS_LOW_WATERMARK_RATIO": "0.4500",
            "OMP_NUM_THREADS": "3",
            "MKL_NUM_THREADS": "3",
            "OPENBLAS_NUM_THREADS": "3",
            "VECLIB_MAXIMUM_THREADS": "3",
            "A": "b",
        },
        # Below HIP's own filter there are two more: an inherited one would change what the numbers mean.
        without=("GGML_", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
        cpus=(1, 2),
        nice=5,
        locks=True,
    )


def test_nothing_said_changes_nothing() -> None:
    command = Command(("server",), "/", {"A": "b"}, ("X",))
    assert on_device(command, spec()) == command


def test_what_an_engine_chose_stays() -> None:
    command = Command(("server",), "/", cpus=(7,), nice=9, locks=True)
    assert on_device(command, spec()) == command
