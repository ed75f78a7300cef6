"""What the GPU of a Mac may use: set by hand, stated by Metal, or estimated, and never all of the memory."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mac_outputs import GIB
from reconciler.core.memory import GpuPool
from reconciler.memory.macos.gpu import gpu_pool, metal_working_set, working_set_through

SET = "sysctl iogpu.wired_limit_mb"
METAL = "Metal recommendedMaxWorkingSetSize"


def values(limit: str | None = "0", arm64: str | None = "1") -> dict[str, str]:
    stated = {"iogpu.wired_limit_mb": limit, "hw.optional.arm64": arm64}
    return {name: value for name, value in stated.items() if value is not None}


def states(size: int | None) -> Callable[[], int | None]:
    return lambda: size


@pytest.mark.parametrize(
    ("total", "limit", "metal", "ceiling", "source"),
    [
        # What Metal stated on Macs of 16, 64 and 128 GB: 67, 77 and 84 %.
        (16 * GIB, "0", 11453250000, 10 * GIB, f"{METAL}, lowered to leave the system 6.0 GiB"),
        (64 * GIB, "0", 53084000000, 53084000000, METAL),
        (128 * GIB, "0", 107 * GIB, 107 * GIB, METAL),
        # A limit set by hand holds, whatever Metal says, if it leaves enough.
        (64 * GIB, "40960", 53084000000, 40 * GIB, SET),
        (
            64 * GIB,
            "65536",
            53084000000,
            64 * GIB - 64 * GIB * 12 // 100,
            f"{SET}, lowered to leave the system 7.7 GiB",
        ),
        (8 * GIB, "8192", None, 2 * GIB, f"{SET}, lowered to leave the system 6.0 GiB"),
        (4 * GIB, "2048", None, 0, f"{SET}, lowered to leave the system 4.0 GiB"),
        # Metal does not answer.
        (36 * GIB, "0", None, 24 * GIB, "estimated as 2/3 of the memory: Metal could not be asked"),
        (48 * GIB, "0", None, 36 * GIB, "estimated as 3/4 of the memory: Metal could not be asked"),
        (48 * GIB, None, 0, 36 * GIB, "estimated as 3/4 of the memory: Metal could not be asked"),
        (48 * GIB, "none", 30 * GIB, 30 * GIB, METAL),
    ],
)
def test_ceiling(total: int, limit: str | None, metal: int | None, ceiling: int, source: str) -> None:
    assert gpu_pool(values(limit), total, states(metal)) == GpuPool(ceiling, None, source)


def test_a_gpu_with_memory_of_its_own_has_no_pool() -> None:
    assert gpu_pool(values(None, None), 64 * GIB, states(8 * GIB)) is None


def test_metal_is_asked_only_for_the_default() -> None:
    def metal() -> int | None:
        raise AssertionError("Metal was asked")

    assert gpu_pool(values("20480"), 64 * GIB, metal) == GpuPool(20 * GIB, None, SET)
    assert gpu_pool(values(None, None), 64 * GIB, metal) is None


@pytest.mark.skipif(sys.platform == "darwin", reason="there it has one")
def test_a_machine_without_metal() -> None:
    assert metal_working_set() is None


#: Stands for Metal and the Objective-C runtime: a device that answers one message and counts who lets go of it.
LIBRARY = """
#include <stdint.h>
#include <string.h>
static int device;
void *next_device = &device;
int released;
void *MTLCreateSystemDefaultDevice(void) { return next_device; }
const char *sel_registerName(const char *name) { return name; }
uint64_t objc_msgSend(void *object, const char *name) {
    return object == &device && strcmp(name, "recommendedMaxWorkingSetSize") == 0 ? 115448725504ULL : 1;
}
void objc_release(void *object) { released += object == &device; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_answer_of_metal(tmp_path: Path) -> None:
    source, built = tmp_path / "metal.c", tmp_path / "metal.so"
    source.write_text(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True, timeout=30)
    library = ctypes.CDLL(str(built))
    assert working_set_through(library, library) == 115448725504
    assert ctypes.c_int.in_dll(library, "released").value == 1
    ctypes.c_void_p.in_dll(library, "next_device").value = None
    assert working_set_through(library, library) is None
    assert ctypes.c_int.in_dll(library, "released").value == 1


def test_libraries_without_these_functions() -> None:
    libc = ctypes.CDLL(None)
    with pytest.raises(AttributeError):
        working_set_through(libc, libc)
