"""NVIDIA GPUs: those that share the machine's memory are counted by process, cards never."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_nvml import GPU_IS_LOST, UNKNOWN, FakeGpu, FakeNvml, NVMLError
from reconciler.core.memory import GpuPool
from reconciler.memory.nvidia import Nvidia
from reconciler.memory.nvml import Nvml

MIB, GIB = 1024**2, 1024**3
#: Bytes of memory of the machine that the GB10 figures come from.
GB10_MACHINE = 127_600_748 * 1024


def nvidia(nvml: Any, root: Path = Path("/nowhere"), **how: Any) -> Nvidia:
    return Nvidia([Nvml(lambda: nvml)], root, **how)


def gb10() -> FakeGpu:
    """Return a GB10 with Xorg, ollama and ComfyUI on it: no totals, but figures by process."""
    return FakeGpu(
        "NVIDIA GB10", compute=[(4379, 32888 * MIB), (913941, 170 * MIB)], graphics=[(2804, 179 * MIB)]
    )


def test_what_each_process_holds_is_known_where_totals_are_not_supported() -> None:
    probe = nvidia(FakeNvml([gb10()]))
    # Resident memory of the first one is 1.15 GiB, in which none of this is.
    assert probe.held([1, 4379, 2804, 913941]) == {2804: 179 * MIB, 4379: 32888 * MIB, 913941: 170 * MIB}
    assert probe.held([1]) == {}
    assert probe.problems() == ()
    assert probe.notes() == ("nvidia: NVIDIA GB10 shares the machine's memory",)


def test_there_is_no_ceiling_and_the_use_is_the_sum() -> None:
    """On a GB10, CUDA's free memory falls from 103 to 41 GiB by writing a file, and MemAvailable does not."""
    pool = nvidia(FakeNvml([gb10()])).pool()
    assert pool == GpuPool(None, (32888 + 170 + 179) * MIB, "nvidia: sum over its processes")


def test_cuda_memory_that_no_resident_set_shows_is_seen() -> None:
    nvml = FakeNvml([FakeGpu("NVIDIA GB10")])
    probe = nvidia(nvml)
    assert probe.held([50]) == {}
    nvml.gpus[0].compute = [(50, 3 * GIB)]
    assert probe.held([50]) == {50: 3 * GIB}
    nvml.gpus[0].compute = [(50, 3 * GIB + 512 * MIB)]
    assert probe.held([50]) == {50: 3 * GIB + 512 * MIB}


CARDS = {
    "two vLLM engines": FakeGpu(
        "NVIDIA RTX 4000 Ada", 20475 * MIB, compute=[(3858903, 6265 * MIB), (3880364, 5530 * MIB)]
    ),
    # A card as large as the machine's memory is still a card.
    "as large as the machine": FakeGpu(
        b"NVIDIA GeForce RTX 5090", 32607 * MIB, 32768 * MIB, [(3858903, GIB)]
    ),
}


@pytest.mark.parametrize("name", CARDS)
def test_memory_of_a_card_is_not_the_machines(name: str) -> None:
    nvml = FakeNvml([CARDS[name]])
    probe = nvidia(nvml)
    assert probe.held([3858903, 3880364]) == {}
    assert probe.pool() is None
    assert "of its own, not counted as memory here" in probe.notes()[0]
    before = len(nvml.calls)
    assert probe.held([3858903]) == {}
    assert len(nvml.calls) == before, "a card needs no second question"


SHARES = {
    "no total": FakeGpu("NVIDIA Something", compute=[(7, GIB)]),
    "a total of nothing": FakeGpu("NVIDIA Something", 0, 0, [(7, GIB)]),
    "a window, but a known name": FakeGpu("NVIDIA Thor", None, 64 * GIB, [(7, GIB)]),
    "the machine's total as its own": FakeGpu("NVIDIA GB10", GB10_MACHINE, None, [(7, GIB)]),
}


@pytest.mark.parametrize("name", SHARES)
def test_gpus_that_share_memory(name: str) -> None:
    assert nvidia(FakeNvml([SHARES[name]])).held([7]) == {7: GIB}


def test_a_card_that_states_no_total_is_not_taken_for_shared_memory() -> None:
    probe = nvidia(FakeNvml([FakeGpu("NVIDIA H100", None, 128 * GIB, [(7, GIB)])]))
    assert probe.held([7]) is None
    assert probe.problems() == ("nvidia: NVML does not say whether NVIDIA H100 has memory of its own",)


def test_a_card_beside_a_shared_gpu_adds_nothing_and_shared_gpus_add_up() -> None:
    card = FakeGpu("NVIDIA RTX 4090", 24 * GIB, compute=[(7, 20 * GIB)])
    shared = [FakeGpu("NVIDIA GB10", compute=[(7, size)]) for size in (GIB, 2 * GIB)]
    assert nvidia(FakeNvml([shared[0], card, shared[1]])).held([7]) == {7: 3 * GIB}


def test_a_process_that_computes_and_draws_counts_once() -> None:
    gpu = FakeGpu("NVIDIA GB10", compute=[(7, GIB), (7, GIB)], graphics=[(7, GIB)])
    assert nvidia(FakeNvml([gpu])).held([7]) == {7: GIB}


def test_a_driver_that_lists_no_drawing_is_asked_for_computing_only() -> None:
    assert nvidia(FakeNvml([FakeGpu("Orin (nvgpu)", None, None, [(7, GIB)], None)])).held([7]) == {7: GIB}


@pytest.mark.parametrize("mark", [None, 2**64 - 1])
def test_a_figure_that_is_not_available_is_unknown_for_that_process_only(mark: int | None) -> None:
    probe = nvidia(FakeNvml([FakeGpu("NVIDIA GB10", compute=[(7, mark), (8, GIB)])]))
    assert probe.held([8]) == {8: GIB}
    assert probe.problems() == ()
    assert probe.held([7, 8]) is None
    assert probe.problems() == ("nvidia: the driver does not say what process 7 holds",)
    assert probe.pool() == GpuPool(None, None, "nvidia: sum over its processes")


FAULTS = {
    "GPU is lost": NVMLError(GPU_IS_LOST),
    "no error of the library": ValueError("boom"),
    "a function that is not there": AttributeError("nvmlInit"),
    "no package": ImportError("pynvml"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_library_that_fails_at_every_call_is_unknown_and_said(name: str) -> None:
    probe = nvidia(FakeNvml([gb10()], FAULTS[name]))
    assert probe.held([4379]) is None
    assert probe.pool() is None
    assert len(probe.problems()) == 1
    assert probe.held([]) == {}


def test_a_driver_that_fails_for_a_while_is_connected_to_anew() -> None:
    nvml = FakeNvml([gb10()])
    probe = nvidia(nvml)
    assert probe.held([4379]) == {4379: 32888 * MIB}
    nvml.fault = NVMLError(UNKNOWN)
    assert probe.held([4379]) is None
    nvml.fault = None
    assert probe.held([4379]) == {4379: 32888 * MIB}
    assert probe.problems() == ()
    assert nvml.calls.count("init") == 2


def test_gpus_that_come_late_are_found() -> None:
    nvml = FakeNvml()
    probe = nvidia(nvml)
    assert probe.held([4379]) == {}
    nvml.gpus.append(gb10())
    assert probe.held([4379]) == {4379: 32888 * MIB}


def test_a_driver_that_hangs_is_waited_for_once() -> None:
    release, entered = Event(), []

    class Hangs(FakeNvml):
        def nvmlDeviceGetCount(self) -> int:  # noqa: N802
            entered.append(1)
            assert release.wait(30)
            return super().nvmlDeviceGetCount()

    probe = nvidia(Hangs([gb10()]), patience=0.05, machine="aarch64")
    try:
        assert [probe.held([4379]) for _ in range(3)] == [None] * 3
        assert probe.problems() == ("nvidia: the driver has not answered for 0.05 s",)
        assert entered == [1], "a hung driver is not asked by one more thread each time"
    finally:
        release.set()


def namespace(root: Path, link: str) -> Path:
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to(link)
    return root


HOST, CONTAINER = "pid:[4026531836]", "pid:[4026532210]"


@pytest.mark.parametrize("listed", [(), ((99, GIB),)])
def test_in_a_container_whose_processes_the_driver_does_not_name_it_is_unknown(
    tmp_path: Path, listed: tuple[tuple[int, int], ...]
) -> None:
    probe = nvidia(FakeNvml([FakeGpu("NVIDIA GB10", compute=listed)]), namespace(tmp_path, CONTAINER))
    assert probe.held([7]) is None
    assert "--pid=host" in probe.problems()[0]


@pytest.mark.parametrize(
    ("link", "gpu", "held"),
    [
        (HOST, FakeGpu("NVIDIA GB10", compute=[(99, GIB)]), {}),
        (CONTAINER, FakeGpu("NVIDIA GB10", compute=[(7, GIB)]), {7: GIB}),
        (CONTAINER, FakeGpu("NVIDIA RTX 4090", 24 * GIB), {}),
    ],
)
def test_a_namespace_matters_only_where_ours_are_missing_from_shared_memory(
    tmp_path: Path, link: str, gpu: FakeGpu, held: dict[int, int]
) -> None:
    assert nvidia(FakeNvml([gpu]), namespace(tmp_path, link)).held([7]) == held


def module_names(root: Path, *names: str) -> Path:
    for index, name in enumerate(names):
        folder = root / f"proc/driver/nvidia/gpus/0000:0{index}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 130\n")
    return root


@pytest.mark.parametrize(
    ("machine", "names", "held"),
    [
        ("x86_64", ("NVIDIA GeForce RTX 3090",), {}),
        ("x86_64", ("NVIDIA GeForce RTX 3090", "NVIDIA GB10"), None),
        ("x86_64", (), None),
        ("aarch64", ("NVIDIA GeForce RTX 3090",), None),
    ],
)
def test_while_the_driver_answers_nobody_cards_of_a_pc_are_still_cards(
    tmp_path: Path, machine: str, names: tuple[str, ...], held: dict[int, int] | None
) -> None:
    """After an update the library and the kernel module differ until the next start of the machine."""
    probe = nvidia(FakeNvml(fault=NVMLError(18)), module_names(tmp_path, *names), machine=machine)
    assert probe.held([7]) == held
    assert bool(probe.problems()) is (held is None)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=5)
)


@settings(max_examples=150, deadline=None)
@given(total=ANYTHING, window=ANYTHING, name=ANYTHING, pid=ANYTHING, size=ANYTHING)
def test_garbage_raises_nothing_and_unknown_has_a_reason(
    total: Any, window: Any, name: Any, pid: Any, size: Any
) -> None:
    probe = nvidia(FakeNvml([FakeGpu(name, total, window, [(pid, size)])]), machine="aarch64")
    held, pool = probe.held([7]), probe.pool()
    if held is None:
        assert probe.problems()
    else:
        assert all(isinstance(value, int) and value > 0 for value in held.values())
    assert pool is None or pool.ceiling is None
    assert all(isinstance(note, str) for note in probe.notes())


def test_nothing_is_imported_before_the_first_question() -> None:
    loaded: list[int] = []

    def load() -> FakeNvml:
        loaded.append(1)
        return FakeNvml([gb10()])

    factory: Callable[[], Any] = load
    probe = Nvidia([Nvml(factory)], Path("/nowhere"))
    assert probe.held([]) == {}
    assert loaded == []
    assert probe.held([1]) == {}
    assert loaded == [1]
