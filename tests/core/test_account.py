"""Who holds the machine's memory, and when the account is not to be believed."""

from dataclasses import replace

import pytest

from reconciler.core.account import Breakdown, breakdown, doubtful, warm_together
from reconciler.core.memory import HostUse, MappedFile, Memory, Stall
from worlds import GIB, MIB, running

#: 32 GiB machine: 20 available, 7 in programs, 1 in the kernel, half in huge pages.
HOST = HostUse(32 * GIB, 20 * GIB, programs=7 * GIB, kernel=GIB, pools=GIB // 2)
MEMORY = Memory(32 * GIB, 20 * GIB, host=HOST)
FILE = MappedFile("8:1:7", 4 * GIB)


def test_every_byte_in_use_has_one_holder() -> None:
    chat = running("chat", 3 * 1024, warm=4 * GIB, files=(FILE,), device=GIB)
    code = running("code", 1024, warm=4 * GIB, files=(FILE,))
    found = breakdown(MEMORY, (chat, code))
    # The driver's GiB is in no program: 7 GiB of programs less the 3 that our models hold themselves leave 4.
    assert found == Breakdown(
        total=32 * GIB,
        available=20 * GIB,
        models=4 * GIB,
        warm=4 * GIB,
        others=4 * GIB,
        kernel=GIB,
        pools=GIB // 2,
        unattributed=32 * GIB - 20 * GIB - 7 * GIB - GIB - GIB // 2 - GIB,
    )
    in_use = found.models + found.others + found.kernel + found.pools + found.unattributed
    assert in_use == found.total - found.available


def test_what_is_compressed_belongs_to_its_programs_and_not_to_nobody() -> None:
    found = breakdown(replace(MEMORY, stall=Stall(compressed=GIB)), ())
    assert found is not None
    assert found.unattributed == 2 * GIB + 512 * MIB


def test_a_host_that_does_not_say_enough_is_not_guessed_at() -> None:
    assert breakdown(replace(MEMORY, host=None), (running("chat", 100),)) is None


@pytest.mark.parametrize(
    ("warm", "expected"),
    [
        ([(4 * GIB, (FILE,)), (4 * GIB, (FILE,))], 4 * GIB),
        ([(4 * GIB, (FILE,)), (3 * GIB, (replace(FILE, size=3 * GIB),))], 4 * GIB),
        ([(5 * GIB, (FILE,)), (None, ())], 5 * GIB),
        ([(2 * GIB, ()), (2 * GIB, ())], 4 * GIB),
        ([], 0),
    ],
)
def test_a_file_is_warm_once(warm: list[tuple[int | None, tuple[MappedFile, ...]]], expected: int) -> None:
    instances = [running(f"m{n}", 1, warm=size, files=files) for n, (size, files) in enumerate(warm)]
    assert warm_together(instances) == expected


@pytest.mark.parametrize(
    ("lowest", "grown"),
    [(None, None), (3 * GIB, None), (3 * GIB - 52 * MIB, None), (GIB, 2 * GIB + 512 * MIB)],
)
def test_the_account_is_doubted_once_a_twentieth_of_the_machine_is_nobodys(
    lowest: int | None, grown: int | None
) -> None:
    found = breakdown(MEMORY, ())
    assert found is not None
    assert found.unattributed == 3 * GIB + 512 * MIB
    assert doubtful(found, lowest) == grown
    assert doubtful(None, lowest) is None
