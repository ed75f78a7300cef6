"""`footprint`: whose figures they are, in which units, and what the memory consists of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mac_outputs import MIB, Commands
from reconciler.memory.macos import Output
from reconciler.memory.macos.footprint import Category, Footprint, parse_footprint, read_footprints

RULE = "=" * 70


def block(
    name: str, pid: int, header: int, now: int | None, peak: int | None = None, *, swapped: bool = False
) -> str:
    lines = [f"    phys_footprint: {now} B", f"    phys_footprint_peak: {peak} B"]
    stated = [] if now is None else lines[: 1 if peak is None else 2]
    if swapped:
        stated.reverse()
    title = f"{name} [{pid}]: 64-bit    Footprint: {header} B (16384 bytes per page)"
    return "\n".join([RULE, title, RULE, "", "Auxiliary data:", *stated, "", ""])


#: `-p 94276 -p 1 -p 999999`: pid 1 may not be read, so a process with a 1 in its name is reported in its place.
TRAP = (
    "Found process helper-bin-0.2.1 [16208] from partial name 1\n"
    "footprint: Unable to find pid for process matching '999999'\n"
    + block("helper-bin-0.2.1", 16208, 5439920, 5472688, 5472688)
    + block("zsh", 94276, 2179384, 2195768, 2359608)
    + f"{RULE}\nSummary Footprint: 7619304 B\n"
)


def test_a_stranger_with_a_similar_name_is_not_reported() -> None:
    assert parse_footprint(TRAP, [94276, 1, 999999]) == (Footprint(94276, "zsh", 2195768, 2359608),)


@pytest.mark.parametrize("swapped", [False, True])
def test_several_processes_in_either_order_of_their_lines(swapped: bool) -> None:
    text = (
        block("Share", 104, 2244968, 2261352, 2310504, swapped=swapped)
        + block("My App [2]", 103, 253904480, 253937248, 333989448, swapped=swapped)
        + f"{RULE}\nSummary Footprint: 256100296 B\n{RULE}\n"
    )
    assert parse_footprint(text, [104, 103, 104]) == (
        Footprint(103, "My App [2]", 253937248, 333989448),
        Footprint(104, "Share", 2261352, 2310504),
    )


def test_figures_without_a_process_are_nobodys() -> None:
    text = "Auxiliary data:\n    phys_footprint: 1601 KB\n    phys_footprint_peak: 1601 KB\n"
    assert parse_footprint(text, [1, 1601]) == ()


def test_units_for_people() -> None:
    title = "kitty [567]: 64-bit    Footprint: 1637 MB (16384 bytes per page)\n"
    text = title + "    phys_footprint: 1637 MB\n    phys_footprint_peak: 2.5 GB\n"
    assert parse_footprint(text, [567]) == (Footprint(567, "kitty", 1637 * MIB, 2560 * MIB),)


def test_two_reports_of_one_process_are_none() -> None:
    twice = block("zsh", 7, 1, 2, 3) + block("zsh", 7, 1, 5, 6)
    assert parse_footprint(twice, [7]) == ()


def test_a_process_without_totals_is_unknown() -> None:
    assert parse_footprint(block("zsh", 7, 1, None), [7]) == (Footprint(7, "zsh", None, None),)


FULL_TABLE = f"""{RULE}
Monitor [14047]: 64-bit    Footprint: 195 MB (16384 bytes per page)
{RULE}

  Dirty      Clean  Reclaimable    Regions    Category
    ---        ---          ---        ---    ---
  90 MB        0 B          0 B         44    Owned physical footprint (unmapped) (graphics)
  58 MB        0 B          0 B         88    MALLOC_SMALL
6592 KB        0 B          0 B         89    IOAccelerator (graphics)
3013 KB      16 KB          0 B       1001    __DATA
"""
#: A server with mapped weights: they are clean, and in no footprint.
SERVER_TABLE = """llama-server [900]: 64-bit    Footprint: 13 GB (16384 bytes per page)
Dirty      Clean     Category
7531 MB    0 B       MALLOC_LARGE
6102 MB    0 B       untagged (VM_ALLOCATE)
8272 KB    0 B       IOAccelerator (graphics)
   0 B     3662 MB   mapped file
"""


def test_categories_with_all_columns() -> None:
    (found,) = parse_footprint(FULL_TABLE, [14047])
    assert found.categories == (
        Category("Owned physical footprint (unmapped) (graphics)", 90 * MIB, 0),
        Category("MALLOC_SMALL", 58 * MIB, 0),
        Category("IOAccelerator (graphics)", 6592 * 1024, 0),
        Category("__DATA", 3013 * 1024, 16 * 1024),
    )


def test_categories_with_fewer_columns() -> None:
    (found,) = parse_footprint(SERVER_TABLE, [900])
    assert found.categories[0] == Category("MALLOC_LARGE", 7531 * MIB, 0)
    assert found.categories[-1] == Category("mapped file", 0, 3662 * MIB)
    assert len(found.categories) == 4


def test_it_is_asked_once_for_all_and_only_when_there_is_somebody() -> None:
    run = Commands({"footprint": TRAP})
    found, problem = read_footprints(run, [94276, 1], categories=False)
    assert ([one.pid for one in found], problem) == ([94276], None)
    assert [argv for argv, _ in run.asked] == [
        ("/usr/bin/footprint", "-f", "bytes", "--noCategories", "-p", "94276", "-p", "1")
    ]
    assert read_footprints(run, []) == ((), None)
    assert len(run.asked) == 1


def test_a_process_that_is_gone() -> None:
    text = (
        "footprint: Unable to find pid for process matching '613'\n"
        "footprint: Unable to find any processes matching the supplied process names or pids (try as root?)\n"
    )
    assert read_footprints(Commands({"footprint": text}), [613]) == ((), None)
    failed = Commands({"footprint": Output(text, 69)})
    assert read_footprints(failed, [613]) == ((), "footprint failed with exit status 69")


def test_what_was_said_of_the_others_holds_when_one_fails() -> None:
    found, problem = read_footprints(Commands({"footprint": Output(TRAP, 1)}), [94276, 1])
    assert [one.now for one in found] == [2195768]
    assert problem == "footprint failed with exit status 1"


@given(st.text(max_size=200), st.text(max_size=60))
def test_any_text_is_read_without_an_error(text: str, name: str) -> None:
    parse_footprint(text, [1])
    parse_footprint(TRAP + text, [94276])
    parse_footprint(FULL_TABLE + text, [14047])
    # A name cannot make a process pass for another one.
    assert all(one.pid == 5 for one in parse_footprint(block(name, 5, 1, 2, 3), range(100)))
