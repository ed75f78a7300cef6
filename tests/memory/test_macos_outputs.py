"""The parsers of macOS outputs, on published captures: `vm_stat`, `sysctl`, `memory_pressure`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mac_outputs import GIB, MIB, Commands, vm_stat
from reconciler.memory.macos.pressure import (
    compressor_share,
    likely_level,
    parse_memory_pressure,
    read_gauge,
    stated_level,
)
from reconciler.memory.macos.sysctl import (
    SwapUsage,
    number,
    parse_sysctl,
    swap_usage,
    sysctl_command,
)
from reconciler.memory.macos.vm_stat import VmStat, parse_vm_stat


def stat_of(text: str) -> VmStat:
    stat = parse_vm_stat(text)
    assert stat is not None
    return stat


@pytest.mark.parametrize(
    ("capture", "available", "psutil_says", "used"),
    # GiB: free + file-backed + purgeable; free + speculative + inactive; what Activity Monitor calls used.
    [
        ("calm", 18.5, 19.0, 12.9),
        ("full", 8.3, 13.8, 23.2),
        ("swapping", 8.8, 13.4, 22.3),
        ("intel", 27.5, 27.4, 4.5),
    ],
)
def test_available_is_what_needs_no_compression(
    capture: str, available: float, psutil_says: float, used: float
) -> None:
    stat = stat_of(vm_stat(capture))
    assert stat.available is not None
    assert round(stat.available / GIB, 1) == available

    # vm_stat's "Pages free" has the speculative pages taken out already; psutil adds them back.
    theirs = stat.bytes_of("Pages free", "Pages speculative", "Pages inactive")
    assert theirs is not None
    assert round(theirs / GIB, 1) == psutil_says
    assert theirs != stat.available

    in_use = stat.bytes_of("Anonymous pages", "Pages wired down", "Pages occupied by compressor")
    purgeable = stat.bytes_of("Pages purgeable")
    assert in_use is not None
    assert purgeable is not None
    assert round((in_use - purgeable) / GIB, 1) == used
    assert stat.managed == stat.available + in_use - purgeable


@pytest.mark.parametrize("capture", ["calm", "full", "swapping", "intel"])
def test_pages_by_content_are_the_pages_by_use(capture: str) -> None:
    stat = stat_of(vm_stat(capture))
    by_use = stat.bytes_of("Pages active", "Pages inactive", "Pages speculative")
    assert stat.bytes_of("File-backed pages", "Anonymous pages") == by_use


def test_swap_is_counted_in_pages_of_the_size_stated() -> None:
    stat = stat_of(vm_stat("swapping"))
    assert (stat.swapped_in, stat.swapped_out) == (714859 * 16384, 1527838 * 16384)
    assert stat.compressed == 44642 * 16384
    assert stat.bytes_of("Translation faults") == 2867647168 * 16384
    assert stat_of(vm_stat("intel")).wired == 715958 * 4096


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Mach Virtual Memory Statistics:\nPages free: 5.\n",
        vm_stat().replace("16384", "0", 1),
        vm_stat().replace("16384", "many", 1),
        "sh: vm_stat: command not found\n",
    ],
)
def test_without_a_page_size_nothing_is_known(text: str) -> None:
    assert parse_vm_stat(text) is None


@pytest.mark.parametrize("line", ["free", "file_backed_pages", "purgeable"])
def test_a_missing_kind_of_pages_is_not_0(line: str) -> None:
    stat = stat_of(vm_stat("calm", **{line: None}))
    assert stat.available is None
    assert stat.wired == 134298 * 16384


# swap


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        ("total = 4096.00M  used = 2743.50M  free = 1352.50M  (encrypted)", (4096, 2743.5)),
        ("total = 7168.00M  used = 6119.06M  free = 1048.94M  (encrypted)", (7168, 6119.06)),
        ("total = 11264.00M  used = 9652.19M  free = 1611.81M  (encrypted)", (11264, 9652.19)),
        ("total = 0.00M  used = 0.00M  free = 0.00M  (encrypted)", (0, 0)),
        ("total = 2.00G  used = 1.50G  free = 0.50G", (2048, 1536)),
    ],
)
def test_swap_usage(value: str, usage: tuple[float, float]) -> None:
    found = swap_usage(parse_sysctl(f"vm.swapusage: {value}\n"))
    assert found == SwapUsage(round(usage[0] * MIB), round(usage[1] * MIB))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "total = 4096,00M  used = 2743,50M  free = 1352,50M  (encrypted)",
        "total = -1.00M  used = 0.00M  free = 0.00M",
        "total = 4096.00M  used = nan  free = 0.00M",
        "{ total = 4096 }",
    ],
)
def test_swap_of_another_shape_is_unknown(value: str) -> None:
    assert swap_usage({"vm.swapusage": value}) is None


# sysctl


def test_values_are_asked_for_together_and_what_a_machine_lacks_is_skipped() -> None:
    assert sysctl_command(["hw.memsize", "hw.pagesize"]) == (
        *("/usr/sbin/sysctl", "-i", "hw.memsize", "hw.pagesize"),
    )
    values = parse_sysctl(
        "hw.memsize: 34359738368\nsysctl: unknown oid 'iogpu.wired_limit_mb'\nhw.pagesize: 16384\n"
    )
    assert sorted(values) == ["hw.memsize", "hw.pagesize"]
    assert number(values, "hw.pagesize") == 16384
    assert number(values, "iogpu.wired_limit_mb") is None


@pytest.mark.parametrize("value", ["", "-1", "1.5", "0x10", "1 2", "\u0663", "9" * 40])
def test_a_value_that_is_no_plain_number_is_unknown(value: str) -> None:
    assert number({"hw.memsize": value}, "hw.memsize") is None


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("vm.page_free_count: 2683717\nvm.memory_pressure: 0\nkern.memorystatus_vm_pressure_level: 1\n", 1),
        ("vm.page_free_count: 32572\nvm.memory_pressure: 1693\nkern.memorystatus_vm_pressure_level: 4\n", 4),
        ("vm.memory_pressure: 6\nkern.memorystatus_vm_pressure_level: 2\nkern.memorystatus_level: 36\n", 2),
        ("vm.memory_pressure: 4\nkern.memorystatus_level: 36\n", None),
        ("kern.memorystatus_vm_pressure_level: 3\n", None),
        ("kern.memorystatus_vm_pressure_level: \n", None),
    ],
)
def test_pressure_level(text: str, level: int | None) -> None:
    assert stated_level(parse_sysctl(text)) == level


@pytest.mark.parametrize(
    ("compressor", "others", "level"),
    # Pages. The third row is a Mac of 48 GB that had compressed 16.4: slow, and still "normal" by the rule.
    [(0, 100, 1), (50, 50, 1), (164, 291, 1), (51, 49, 2), (66, 34, 2), (67, 33, 4), (1, 0, 4)],
)
def test_level_by_the_rule_of_the_kernel(compressor: int, others: int, level: int) -> None:
    stat = stat_of(
        vm_stat(free=others, active=0, inactive=0, speculative=0, occupied_by_compressor=compressor)
    )
    assert compressor_share(stat) == pytest.approx(compressor / (compressor + others))
    assert likely_level(stat) == level


@pytest.mark.parametrize(("capture", "percent"), [("calm", 5.0), ("full", 6.3), ("swapping", 2.5)])
def test_share_of_the_compressor(capture: str, percent: float) -> None:
    share = compressor_share(stat_of(vm_stat(capture)))
    assert share is not None
    assert round(share * 100, 1) == percent


def test_no_rule_without_its_figures() -> None:
    assert likely_level(stat_of(vm_stat(occupied_by_compressor=None))) is None
    nothing = vm_stat(free=0, active=0, inactive=0, speculative=0, occupied_by_compressor=0)
    assert likely_level(stat_of(nothing)) is None


# memory_pressure

LONG = """The system has 34359738368 (2097152 pages with a page size of 16384).

Stats:\x20
Pages free: 15123\x20
Pages purgeable: 11748\x20

Compressor Stats:
Pages used by compressor: 120555\x20

System-wide memory free percentage: 87%
"""


def gauge(total: int, page: int, percent: int) -> str:
    pages = f"({total // 16384} pages with a page size of {page})"
    return f"The system has {total} {pages}.\nSystem-wide memory free percentage: {percent}%\n"


@pytest.mark.parametrize(
    ("text", "total", "percent"),
    [
        (LONG, 34359738368, 87),
        (LONG.replace("87%", "88%"), 34359738368, 88),
        (gauge(34359738368, 16384, 87), 34359738368, 87),
        (gauge(38654705664, 16384, 79), 38654705664, 79),
        # The bytes hold, whatever stands behind them.
        (gauge(25769803776, 4096, 18), 25769803776, 18),
    ],
)
def test_gauge(text: str, total: int, percent: int) -> None:
    found = parse_memory_pressure(text)
    assert found is not None
    assert (found.total, found.percent) == (total, percent)


def test_the_gauge_is_no_free_memory() -> None:
    """It says 87 % where 26 % can be had: what neither is wired nor compressed, in use or not."""
    found = parse_memory_pressure(LONG)
    stat = stat_of(vm_stat("full"))
    assert found is not None
    assert stat.available is not None
    assert round(stat.available / found.total * 100) == 26
    not_wired = stat.bytes_of("Pages free", "Pages active", "Pages inactive", "Pages speculative")
    assert not_wired is not None
    assert stat.managed is not None
    assert int(not_wired / stat.managed * 100) == found.percent


@pytest.mark.parametrize(
    "text", ["", "The system has 0 (0 pages with a page size of 16384).", gauge(GIB, 16384, 101), "87%"]
)
def test_no_gauge(text: str) -> None:
    run = Commands({"memory_pressure": text})
    assert read_gauge(run) == (None, "memory_pressure printed something that is not understood")
    assert run.asked == [(("/usr/bin/memory_pressure", "-Q"), 2.0)]


def test_gauge_of_a_machine_without_the_command() -> None:
    run = Commands({"memory_pressure": FileNotFoundError(2, "No such file or directory")})
    assert read_gauge(run) == (None, "memory_pressure cannot be run: No such file or directory")


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_memory_pressure(text)
    values = parse_sysctl(text)
    swap_usage(values)
    stated_level({"kern.memorystatus_vm_pressure_level": text})
    swap_usage({"vm.swapusage": text})
    stat = parse_vm_stat("(page size of 16384 bytes)\n" + text)
    assert stat is not None
    assert stat.available is None
