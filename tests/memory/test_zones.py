"""Free pages on the lists of the CPUs."""

from pathlib import Path

import pytest

from reconciler.memory.host import read_host
from reconciler.memory.zones import read_cpu_lists

GIB = 1 << 30
#: Two zones of a machine with two CPUs, as the kernel prints them; `count: 0` also stands for a zone without pages.
ZONES = """\
Node 0, zone    DMA32
  per-node stats
      nr_inactive_anon 300000
  pages free     745000
        min      2116
  pagesets
    cpu: 0
              count:    803
              high:     1444
    cpu: 1
              count:    0
              high:     1444
  vm stats threshold: 24
Node 0, zone   Normal
  pages free     2000000
  pagesets
    cpu: 0
              count:    143000
              high:     150000
    cpu: 1
              count:    155000
"""
MEMINFO = "".join(
    f"{name}: {gib << 20} kB\n"
    for name, gib in (
        ("MemTotal", 24),
        ("MemAvailable", 8),
        ("AnonPages", 9),
        ("Shmem", 1),
        ("SUnreclaim", 1),
    )
)


def write(root: Path, zones: str | None) -> Path:
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(MEMINFO)
    if zones is not None:
        (root / "proc/zoneinfo").write_text(zones)
    return root


def test_they_are_available_although_the_kernel_does_not_say_so(tmp_path: Path) -> None:
    kept = (803 + 143000 + 155000) * 4096
    host = read_host(write(tmp_path, ZONES), unmovable=False, page_size=4096)
    assert host.available == 8 * GIB + kept
    assert "lists of the CPUs" in host.source
    assert host.problems == ()


@pytest.mark.parametrize("zones", [None, "", "no zones here\n", ZONES.replace("count:", "number:")])
def test_a_kernel_that_does_not_say_keeps_none(tmp_path: Path, zones: str | None) -> None:
    host = read_host(write(tmp_path, zones), unmovable=False, page_size=4096)
    assert (host.available, host.source, host.problems) == (8 * GIB, "/proc/meminfo", ())


def test_more_than_half_of_the_memory_is_not_believed(tmp_path: Path) -> None:
    root = write(tmp_path, ZONES.replace("143000", "9143000"))
    size, problem = read_cpu_lists(root, 4096, 24 * GIB)
    assert size == 0
    assert problem is not None
    assert "not believed" in problem
