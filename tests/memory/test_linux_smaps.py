"""Mapped files out of smaps: which are weights, how much of each, and what several processes have of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linux_trees import KIB, MIB, Mapped, smaps
from reconciler.core.memory import MappedFile
from reconciler.memory.mapped import FilePages, merge, parse_smaps

WEIGHTS = Mapped("/models/my weights.gguf", 240812, inode=1234)
KEY = "254:2:1234"


def files(*mappings: Mapped, in_memory: frozenset[str] = frozenset()) -> tuple[MappedFile, ...]:
    parsed = parse_smaps(smaps(*mappings), in_memory)
    assert parsed is not None
    return merge([parsed]).files


NOT_WARM = {
    "anonymous": Mapped("[heap]", 8192, mode="rw-p"),
    "a library": Mapped("/usr/lib/libggml.so", 8192, inode=7, mode="r-xp"),
    "a small file": Mapped("/usr/share/fonts/a.ttf", 1023, inode=8),
    "a file that is not resident": Mapped("/models/cold.gguf", 0, inode=9, size=8192),
    "shared memory without a name": Mapped(
        "/dev/zero (deleted)", 8192, inode=10, device="00:01", mode="rw-s"
    ),
    "a memfd": Mapped("/memfd:buffer (deleted)", 8192, inode=11, device="00:01", mode="rw-s"),
    "a GPU": Mapped("/dev/dri/renderD128", 8192, inode=12, device="00:06", mode="rw-s"),
    "a file in memory": Mapped("/run/w.gguf", 8192, inode=13, device="00:19"),
    "own pages after writing": Mapped("/models/w.bin", 8192, inode=14, mode="rw-p", anonymous=8000),
}


@pytest.mark.parametrize("name", NOT_WARM)
def test_what_is_no_weights(name: str) -> None:
    assert files(WEIGHTS, NOT_WARM[name], in_memory=frozenset({"0:25"})) == (MappedFile(KEY, 240812 * KIB),)


def test_every_part_of_a_library_is_left_out() -> None:
    parts = (
        Mapped("/usr/lib/libcuda.so", 60000, inode=7, mode=mode, offset=i << 26)
        for i, mode in enumerate(["r--p", "r-xp", "r--p"])
    )
    assert files(*parts) == ()


def test_pieces_of_one_file_add_up() -> None:
    pieces = [Mapped("/w", 2048, inode=1234, offset=i * 2 * MIB) for i in range(3)]
    assert files(*pieces) == (MappedFile(KEY, 6 * MIB),)


def test_one_stretch_mapped_twice_is_in_memory_once() -> None:
    assert files(WEIGHTS, WEIGHTS) == (MappedFile(KEY, 240812 * KIB),)


def test_a_deleted_file_is_still_a_file() -> None:
    assert files(Mapped("/models/old.gguf (deleted)", 4096, inode=1234)) == (MappedFile(KEY, 4 * MIB),)


def test_locked_pages_are_whole_although_stated_as_a_share() -> None:
    # Two processes map it, so half of the pages are charged to each, in `Pss` as in `Locked`.
    shared = Mapped("/w", 240812, pss=120406, locked=120406, inode=1234)
    parsed = parse_smaps(smaps(shared)) or {}
    assert parsed[KEY] == FilePages(240812 * KIB, 120406 * KIB, 240812 * KIB, code=False)
    assert merge([parsed, parsed]).files == ()
    assert merge([parsed, parsed]).locked == 240812 * KIB


def test_the_part_that_is_not_locked_stays_warm() -> None:
    head = Mapped("/w", 4096, locked=4096, inode=1234)
    tail = Mapped("/w", 8192, inode=1234, offset=4 * MIB)
    parsed = parse_smaps(smaps(head, tail)) or {}
    assert merge([parsed]).files == (MappedFile(KEY, 8 * MIB),)
    assert merge([parsed]).locked == 4 * MIB


def test_locked_libraries_are_committed() -> None:
    parsed = parse_smaps(smaps(Mapped("/lib.so", 4096, locked=4096, inode=7, mode="r-xp"))) or {}
    assert merge([parsed]).locked == 4 * MIB


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        # The same pages: the shares add up to one of them.
        ([(8192, 4096), (8192, 4096)], 8192),
        # Different pages (each worker reads its part): the shares add up to both.
        ([(8192, 8192), (6144, 6144)], 14336),
        # The same pages, mapped by a third process that is not of this tree.
        ([(9000, 3000), (9000, 3000)], 9000),
    ],
)
def test_several_processes_of_a_tree(parts: list[tuple[int, int]], expected: int) -> None:
    processes = [parse_smaps(smaps(Mapped("/w", rss, pss=pss, inode=1234))) or {} for rss, pss in parts]
    assert merge(processes).files == (MappedFile(KEY, expected * KIB),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "banana",
        smaps(WEIGHTS).replace("Rss:  240812 kB\n", ""),
        smaps(WEIGHTS).replace("Rss:  240812", "Rss:  -1"),
        smaps(WEIGHTS).replace("Rss:  240812", "Rss:  999999999"),
        smaps(WEIGHTS).partition("Pss:")[0],
    ],
    ids=["empty", "text", "no size", "negative", "larger than the mapping", "cut off"],
)
def test_garbage_is_no_smaps(text: str) -> None:
    assert parse_smaps(text) is None


@given(st.binary(max_size=200), st.integers(0, 900))
def test_any_damage_is_read_or_refused_but_never_raises(damage: bytes, place: int) -> None:
    text = smaps(WEIGHTS, NOT_WARM["a library"]).encode()
    broken = (text[:place] + damage + text[place + len(damage) :]).decode("utf-8", "replace")
    parsed = parse_smaps(broken)
    if parsed is not None:
        merged = merge([parsed])
        assert merged.warm == sum(file.size for file in merged.files)
        assert all(0 <= pages.locked <= pages.resident for pages in parsed.values())


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=6))
def test_what_is_resident_is_never_more_than_what_is_covered(spans: list[tuple[int, int]]) -> None:
    pieces = [Mapped("/w", 1024 * n, inode=1234, offset=at * MIB) for at, n in spans]
    covered = {at + i for at, n in spans for i in range(n)}
    parsed = parse_smaps(smaps(*pieces)) or {}
    assert parsed[KEY].resident == min(sum(n for _, n in spans), len(covered)) * MIB
