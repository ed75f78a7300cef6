"""AMD GPUs on small fake /proc and /sys trees: which memory is the machine's, and whose it is."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.core.memory import GpuPool
from reconciler.memory.amdgpu import AmdGpu, find_cards

KIB, MIB, GIB = 1024, 1024**2, 1024**3


def write_card(root: Path, name: object = "card1", vendor: object = "0x1002", **files: object) -> Path:
    """Write a GPU; a file `hwmon__hwmon3__in1_label` is one in folders."""
    device = root / "sys/class/drm" / str(name) / "device"
    for file, value in {"vendor": vendor, **files}.items():
        path = device / file.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return device


def write_file(root: Path, pid: int, descriptor: int, target: str, lines: Mapping[str, str] | None) -> None:
    """Write one open file of a process as /proc shows it."""
    for folder in ("fd", "fdinfo"):
        (root / f"proc/{pid}/{folder}").mkdir(parents=True, exist_ok=True)
    (root / f"proc/{pid}/fd/{descriptor}").symlink_to(target)
    text = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1073\n"
    for key, value in (lines or {}).items():
        text += f"{key}:\t{value}\n"
    (root / f"proc/{pid}/fdinfo/{descriptor}").write_text(text)


def client(number: object = 657, **regions: str) -> dict[str, str]:
    """Return the lines of one client; `resident_gtt="1 KiB"` is `drm-resident-gtt`."""
    lines = {"drm-driver": "amdgpu", "drm-client-id": str(number), "drm-pdev": "0000:c6:00.0"}
    return lines | {f"drm-{key.replace('_', '-')}": value for key, value in regions.items()}


def strix_halo(root: Path, used: int = 0) -> None:
    write_card(
        root,
        mem_info_gtt_total=103079215104,
        mem_info_gtt_used=used,
        mem_info_vram_total=4294967296,
        mem_info_vram_used=0,
    )


def test_the_ceiling_is_the_limit_of_the_kernel_in_pages(tmp_path: Path) -> None:
    strix_halo(tmp_path, used=7 * GIB)
    probe = AmdGpu(tmp_path)
    assert probe.pool() == GpuPool(25165824 * 4096, 7 * GIB, "amdgpu card1: GTT")
    assert probe.problems() == ()


@pytest.mark.parametrize(
    ("gtt", "vram"),
    [
        # ROCm's tool on a machine of 128 GB: the two together would be 132 GiB.
        (133_143_986_176, 8_589_934_592),
        # The share the firmware sets aside by default: far from what the GPU can use.
        (64 * GIB, 512 * MIB),
    ],
)
def test_vram_is_never_added_to_the_ceiling_nor_taken_for_it(tmp_path: Path, gtt: int, vram: int) -> None:
    write_card(tmp_path, mem_info_gtt_total=gtt, mem_info_gtt_used=0, mem_info_vram_total=vram)
    pool = AmdGpu(tmp_path).pool()
    assert pool is not None
    assert pool.ceiling == gtt


SHOWS: dict[str, tuple[dict[str, object], bool]] = {
    "a board": ({"board_info": "type : cem"}, False),
    "memory chips of a maker": ({"mem_info_vram_vendor": "samsung"}, False),
    "memory chips of no known maker": ({"mem_info_vram_vendor": "unknown"}, True),
    "a north bridge": ({"hwmon__hwmon3__in1_label": "vddnb", "mem_info_vram_total": 96 * GIB}, True),
    "a graphics voltage only": (
        {"hwmon__hwmon3__in0_label": "vddgfx", "mem_info_vram_total": 24 * GIB},
        False,
    ),
    # Half of a large machine is more than the card has: the size alone would mislead.
    "a board in a large machine": ({"board_info": "type : cem", "mem_info_gtt_total": 64 * GIB}, False),
    "little VRAM": ({"mem_info_vram_total": 512 * MIB}, True),
    "much VRAM": ({"mem_info_vram_total": 24 * GIB}, False),
}


@pytest.mark.parametrize("name", SHOWS)
def test_integrated_or_a_card(tmp_path: Path, name: str) -> None:
    files, integrated = SHOWS[name]
    defaults: dict[str, object] = {
        "mem_info_vram_total": 8 * GIB,
        "mem_info_gtt_total": 16 * GIB,
        "mem_info_gtt_used": GIB,
    }
    write_card(tmp_path, **defaults | files)
    probe = AmdGpu(tmp_path)
    assert [card.integrated for card in find_cards(tmp_path)] == [integrated]
    assert (probe.pool() is not None) is integrated
    assert ("is integrated" if integrated else "is a card") in probe.notes()[0]


def test_with_both_only_the_integrated_one_has_a_ceiling(tmp_path: Path) -> None:
    strix_halo(tmp_path, used=GIB)
    write_card(tmp_path, "card0", board_info="type : cem", mem_info_gtt_total=200 * GIB, mem_info_gtt_used=1)
    assert AmdGpu(tmp_path).pool() == GpuPool(96 * GIB, GIB, "amdgpu card1: GTT")


def test_only_what_amdgpu_runs_is_a_card(tmp_path: Path) -> None:
    write_card(tmp_path, "card0", vendor="0x10de")
    write_card(tmp_path, "card1-DP-1", mem_info_gtt_total=GIB)  # an output, its device is the card
    write_card(tmp_path, "card2", vendor="0x1002")  # the driver before amdgpu
    write_card(tmp_path, "card3", vendor="0x8086", mem_info_gtt_total=GIB)
    assert find_cards(tmp_path) == ()
    assert AmdGpu(tmp_path).pool() is None


LINES = {
    # A model of 24 GB on an integrated GPU: VRAM alone would read 5 MiB.
    "kernel that does not split": (
        {"memory_cpu": "0 KiB", "memory_gtt": "25258000 KiB", "memory_vram": "5348 KiB"},
        25258000 * KIB,
        5348 * KIB,
    ),
    "resident, not total": (
        {
            "total_gtt": "512 KiB",
            "resident_gtt": "448 KiB",
            "total_vram": "32 KiB",
            "resident_vram": "16 KiB",
        },
        448 * KIB,
        16 * KIB,
    ),
    "resident before memory": (
        {"memory_gtt": "9 KiB", "resident_gtt": "4 MiB", "memory_vram": "0"},
        4 * MIB,
        0,
    ),
    "no unit is bytes": ({"resident_gtt": "4096", "resident_vram": "12"}, 4096, 12),
}


@pytest.mark.parametrize("name", LINES)
def test_what_the_driver_holds_for_a_process(tmp_path: Path, name: str) -> None:
    regions, gtt, vram = LINES[name]
    write_file(tmp_path, 7, 5, "/dev/dri/renderD128", client(657, **regions))
    probe = AmdGpu(tmp_path)
    assert probe.held([7]) == {7: gtt}
    assert probe.vram([7]) == ({7: vram} if vram else {})
    assert probe.problems() == ()


def test_a_client_counts_once_and_for_the_smallest_pid(tmp_path: Path) -> None:
    mine = client(1, resident_gtt="10 MiB")
    for pid, descriptor in ((20, 5), (20, 6), (9, 4)):  # duplicated, and inherited by a child
        write_file(tmp_path, pid, descriptor, "/dev/dri/renderD128", mine)
    write_file(tmp_path, 20, 7, "/dev/dri/card1", client(2, resident_gtt="3 MiB"))
    other_bus = client(1, resident_gtt="1 MiB") | {"drm-pdev": "0000:03:00.0"}
    write_file(tmp_path, 20, 8, "/dev/dri/renderD129", other_bus)
    probe = AmdGpu(tmp_path)
    assert probe.held([20, 9, 20]) == {9: 10 * MIB, 20: 4 * MIB}
    assert probe.held([20]) == {20: 14 * MIB}


def test_clients_add_up_to_what_the_driver_counts(tmp_path: Path) -> None:
    """As on a Strix Halo with 24174 MB in use, of which 24160 belonged to processes."""
    strix_halo(tmp_path, used=24174 * 10**6)
    for pid, size in ((100, 23_900), (101, 200), (102, 60)):
        write_file(
            tmp_path,
            pid,
            9,
            "/dev/dri/renderD128",
            client(pid, resident_gtt=str(size * 10**6), resident_vram="0"),
        )
    probe = AmdGpu(tmp_path)
    held, pool = probe.held(range(100, 103)), probe.pool()
    assert held is not None
    assert pool is not None
    assert pool.used is not None
    assert sum(held.values()) == 24160 * 10**6
    assert sum(held.values()) / pool.used > 0.999


def test_other_files_and_other_drivers_are_left_alone(tmp_path: Path) -> None:
    strix_halo(tmp_path)
    write_card(tmp_path, "renderD129", vendor="0x10de")
    write_file(tmp_path, 7, 3, "socket:[123]", {"drm-driver": "amdgpu", "drm-resident-gtt": "1 GiB"})
    write_file(tmp_path, 7, 4, "/dev/dri/renderD129", None)  # states nothing, and is known to be no AMD
    xe = {"drm-driver": "xe", "drm-client-id": "3", "drm-resident-gtt": "192 KiB"}
    write_file(tmp_path, 7, 5, "/dev/dri/renderD130", xe)
    probe = AmdGpu(tmp_path)
    assert probe.held([7]) == {}
    assert probe.problems() == ()


def test_an_ended_process_holds_nothing(tmp_path: Path) -> None:
    write_file(tmp_path, 7, 5, "/dev/dri/renderD128", client(resident_gtt="1 MiB"))
    (tmp_path / "proc/7/fdinfo/5").unlink()  # closed between two reads
    probe = AmdGpu(tmp_path)
    assert probe.held([7, 8]) == {}
    assert probe.held([]) == {}
    assert probe.problems() == ()


UNREADABLE = {
    "a size that is none": (client(resident_gtt="12 parsecs"), "drm-resident-gtt of process 7"),
    "no size at all": (client(), "how much gtt process 7 holds"),
    "no statistics": ({}, "states no statistics"),
    "as long as a book": (client(memory_gtt="9" * 5000), "drm-memory-gtt of process 7"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_not_understood_is_unknown_and_said(tmp_path: Path, name: str) -> None:
    lines, sentence = UNREADABLE[name]
    write_file(tmp_path, 6, 5, "/dev/dri/renderD128", client(1, resident_gtt="1 MiB"))
    write_file(tmp_path, 7, 5, "/dev/dri/renderD128", lines)
    probe = AmdGpu(tmp_path)
    assert probe.held([6, 7]) is None
    assert len(probe.problems()) == 1
    assert sentence in probe.problems()[0]
    assert probe.held([6]) == {6: MIB}
    assert probe.problems() == ()


def test_a_process_that_may_not_be_read_makes_it_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path, 6, 5, "/dev/dri/renderD128", client(1, resident_gtt="1 MiB"))
    really = os.listdir

    def listdir(path: str) -> list[str]:
        if "/7/" in path:
            raise PermissionError(13, "Permission denied")
        return really(path)

    monkeypatch.setattr(os, "listdir", listdir)
    probe = AmdGpu(tmp_path)
    assert probe.held([6, 7]) is None
    assert probe.problems() == ("amdgpu: open files of process 7 cannot be read: Permission denied",)


@pytest.mark.parametrize("file", ["mem_info_gtt_total", "mem_info_gtt_used"])
@pytest.mark.parametrize("text", ["", "banana", "-1", "1e9", "9" * 5000])
def test_a_pool_that_is_no_number_is_unknown_and_said(tmp_path: Path, file: str, text: str) -> None:
    strix_halo(tmp_path, used=GIB)
    write_card(tmp_path, hwmon__hwmon0__in1_label="vddnb", **{file: text})
    probe = AmdGpu(tmp_path)
    pool = probe.pool()
    assert pool is not None
    known = (96 * GIB, None) if file.endswith("used") else (None, GIB)
    assert (pool.ceiling, pool.used) == known
    assert probe.problems() == (f"amdgpu card1: {file} is not a size",)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=200),
    target=st.sampled_from(
        [
            "sys/class/drm/card1/device/vendor",
            "sys/class/drm/card1/device/mem_info_gtt_total",
            "sys/class/drm/card1/device/mem_info_gtt_used",
            "sys/class/drm/card1/device/mem_info_vram_total",
            "sys/class/drm/card1/device/mem_info_vram_vendor",
            "sys/class/drm/card1/device/hwmon/hwmon0/in1_label",
            "proc/7/fdinfo/5",
        ]
    ),
)
def test_garbage_raises_nothing_and_unknown_has_a_reason(tmp_path: Path, data: bytes, target: str) -> None:
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    strix_halo(tmp_path)
    write_card(tmp_path, hwmon__hwmon0__in1_label="vddnb")
    write_file(tmp_path, 7, 5, "/dev/dri/renderD128", client(resident_gtt="1 MiB", resident_vram="0"))
    path = tmp_path / target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    probe = AmdGpu(tmp_path)
    pool, held, vram = probe.pool(), probe.held([7]), probe.vram([7])
    unknown = held is None or vram is None or (pool is not None and None in (pool.ceiling, pool.used))
    assert bool(probe.problems()) is unknown
    assert len(probe.notes()) == len(find_cards(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_live_processes_without_a_gpu_and_a_zombie_hold_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        assert AmdGpu().held([os.getpid(), process.pid]) == {}
    finally:
        process.wait(30)
