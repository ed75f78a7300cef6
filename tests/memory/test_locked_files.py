"""Files that programs have locked in memory are held by programs: they are on neither of the lists that shrink."""

from pathlib import Path

import pytest

from linux_trees import kib_lines, write_files
from reconciler.core.memory import GpuPool
from reconciler.memory.linux import LinuxMachine

KIB = 1 << 10
#: KiB of a machine of 32 GiB: 2 GiB of a model's weights are locked, and 500 MiB of somebody's anonymous pages.
LOCKED = {
    "MemTotal": 32 << 20,
    "MemAvailable": 20 << 20,
    "Buffers": 1 << 10,
    "Cached": 8 << 20,
    "Active(file)": 3 << 20,
    "Inactive(file)": (3 << 20) - 1023,
    "Unevictable": (2 << 20) + (500 << 10),
    "AnonPages": 4 << 20,
    "Shmem": 2047,
    "SUnreclaim": 3,
}


def programs(folder: Path, fields: dict[str, int]) -> int:
    text = "".join(f"{key}: {size} kB\n" for key, size in fields.items())
    host = LinuxMachine(write_files(folder, {"proc/meminfo": text})).read(0.0).host
    assert host is not None
    return host.programs


def test_locked_files_belong_to_programs(tmp_path: Path) -> None:
    assert programs(tmp_path, LOCKED) == ((4 << 20) + 2047 + (2 << 20)) * KIB


@pytest.mark.parametrize("missing", ["Cached", "Buffers", "Active(file)", "Inactive(file)", "Unevictable"])
def test_where_the_kernel_does_not_say_enough_nothing_counts_as_locked(tmp_path: Path, missing: str) -> None:
    fields = {key: size for key, size in LOCKED.items() if key != missing}
    assert programs(tmp_path, fields) == ((4 << 20) + 2047) * KIB


def test_no_more_is_locked_than_the_kernel_calls_unevictable(tmp_path: Path) -> None:
    assert programs(tmp_path, LOCKED | {"Unevictable": 7}) == ((4 << 20) + 2047 + 7) * KIB
    assert programs(tmp_path, LOCKED | {"Active(file)": 9 << 20}) == ((4 << 20) + 2047) * KIB


class Silent:
    """A driver that does not answer, or has nothing to say."""

    name = "driver"

    def __init__(self, *problems: str) -> None:
        self._problems = problems

    def pool(self) -> GpuPool | None:
        return None

    def held(self, pids: object) -> None:
        del pids

    def problems(self) -> tuple[str, ...]:
        return self._problems


def test_a_driver_that_does_not_answer_may_hold_memory_and_one_without_shared_memory_does_not(
    tmp_path: Path,
) -> None:
    write_files(tmp_path, {"proc/meminfo": kib_lines(**LOCKED)})
    gpu = LinuxMachine(tmp_path, [Silent("driver: no answer")]).read(0.0).gpu
    assert gpu == GpuPool(None, None, "driver: the driver does not tell")
    assert LinuxMachine(tmp_path, [Silent()]).read(0.0).gpu is None
