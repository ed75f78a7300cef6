"""`nvidia-smi` as the second way to ask the driver: its answers, its silence, and what it prints instead of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_nvml import FakeGpu, FakeNvml
from reconciler.core.memory import GpuPool
from reconciler.memory.commands import Output, no_commands
from reconciler.memory.nvidia import Nvidia
from reconciler.memory.nvidia_smi import NvidiaSmi
from reconciler.memory.nvml import Nvml

MIB, GIB = 1024**2, 1024**3
SHARED = "GPU-11, NVIDIA GB10, [N/A]\n"
CARD = "GPU-22, NVIDIA RTX 4000 Ada, 20475\n"


class Smi:
    """Answers like `nvidia-smi`; keeps what it was asked."""

    def __init__(self, gpus: str, processes: str = "", status: int = 0) -> None:
        self.answers = {"--query-gpu": gpus, "--query-compute-apps": processes}
        self.status = status
        self.asked: list[Sequence[str]] = []

    def __call__(self, argv: Sequence[str], timeout: float) -> Output:
        assert 0 < timeout <= 5
        self.asked.append(argv)
        return Output(self.answers[argv[1].partition("=")[0]], self.status)


def probe_of(smi: Smi) -> Nvidia:
    return Nvidia([NvidiaSmi(smi)], Path("/nowhere"), machine="aarch64")


def test_shared_memory_by_process() -> None:
    smi = Smi(SHARED, "GPU-11, 4379, 32888\nGPU-11, 913941, 170\n")
    probe = probe_of(smi)
    assert probe.held([4379, 5]) == {4379: 32888 * MIB}
    assert probe.pool() == GpuPool(None, 33058 * MIB, "nvidia: sum over its processes")
    assert smi.asked[:2] == [
        ("nvidia-smi", "--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits"),
        ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"),
    ]
    assert [argv[1].partition("=")[0] for argv in smi.asked[2:]] == ["--query-compute-apps"]


def test_processes_of_a_card_are_not_asked_for() -> None:
    smi = Smi(CARD, "GPU-22, 3858903, 6265\nGPU-22, 3880364, 5530\n")
    probe = probe_of(smi)
    assert probe.held([3858903, 3880364]) == {}
    assert probe.held([3858903]) == {}
    assert len(smi.asked) == 1
    assert "20475 MiB of its own" in probe.notes()[0]


def test_only_the_part_on_shared_memory_counts_and_units_are_read_where_they_are_given() -> None:
    smi = Smi(CARD + SHARED, "GPU-22, 7, 6265 MiB\nGPU-11, 7, 5530 MiB\n\nGPU-11, 8, 1\n")
    assert probe_of(smi).held([7, 8]) == {7: 5530 * MIB, 8: MIB}


@pytest.mark.parametrize("silence", ["[N/A]", "[Not Supported]", "[Insufficient Permissions]"])
def test_what_it_does_not_tell_is_unknown(silence: str) -> None:
    probe = probe_of(Smi(SHARED, f"GPU-11, 7, {silence}\n"))
    assert probe.held([7]) is None
    assert probe.held([8]) == {}


BROKEN = {
    "no devices": (Smi("No devices were found\n"), "'No devices were found' is not understood"),
    "failure": (
        Smi("Failed to initialize NVML: Driver/library version mismatch", status=18),
        "exit status 18",
    ),
    "a total that is none": (Smi("GPU-1, NVIDIA X, much\n"), "'much' is not a size"),
    "an error for a total": (Smi("GPU-1, NVIDIA X, [GPU requires reset]\n"), "is not a size"),
    "a pid that is none": (Smi(SHARED, "GPU-11, me, 5\n"), "'me' is not a process id"),
    "a header": (Smi(SHARED, "gpu_uuid, pid, used_gpu_memory [MiB]\n"), "'pid' is not a process id"),
    "an endless size": (Smi(SHARED, f"GPU-11, 7, {'9' * 5000}\n"), "is not a size"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_understood_is_unknown_and_said(name: str) -> None:
    smi, sentence = BROKEN[name]
    probe = probe_of(smi)
    assert probe.held([7]) is None
    assert sentence in probe.problems()[0]


def test_it_is_asked_where_the_library_fails_and_not_where_it_answers() -> None:
    smi = Smi(SHARED, "GPU-11, 7, 100\n")
    fails = FakeNvml(fault=ImportError("pynvml"))
    assert Nvidia([Nvml(lambda: fails), NvidiaSmi(smi)], Path("/nowhere")).held([7]) == {7: 100 * MIB}
    asked = len(smi.asked)
    works = FakeNvml([FakeGpu("NVIDIA GB10", compute=[(7, GIB)])])
    assert Nvidia([Nvml(lambda: works), NvidiaSmi(smi)], Path("/nowhere")).held([7]) == {7: GIB}
    assert len(smi.asked) == asked


def test_without_any_way_to_ask_both_reasons_are_said() -> None:
    fails = FakeNvml(fault=ImportError("pynvml"))
    probe = Nvidia([Nvml(lambda: fails), NvidiaSmi(no_commands)], Path("/nowhere"), machine="aarch64")
    assert probe.held([7]) is None
    (problem,) = probe.problems()
    assert problem.startswith("nvidia: the package nvidia-ml-py is not installed; nvidia-smi cannot be run")


PRINTED = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.tuples(st.sampled_from(["GPU-11", "7", ""]), st.text(max_size=6), st.text(max_size=6)), max_size=3
    ).map(lambda rows: "\n".join(", ".join(row) for row in rows)),
)


@settings(max_examples=200, deadline=None)
@given(gpus=st.one_of(st.just(SHARED), PRINTED), processes=PRINTED)
def test_garbage_raises_nothing_and_unknown_has_a_reason(gpus: str, processes: str) -> None:
    probe = probe_of(Smi(gpus, processes))
    held = probe.held([7])
    if held is None:
        assert probe.problems()
    else:
        assert all(size > 0 for size in held.values())
