"""Values among the words of a command line, as argparse and its relatives read them."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
#: Programs differ: `K` is 1024 to vLLM and `k` is 1000; MLX writes `MB` and means a million.
DECIMAL: Final = {"": 1, "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9}
BINARY: Final = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 1 << 10,
    "M": 1 << 20,
    "G": 1 << 30,
    "T": 1 << 40,
}


def name(word: str) -> str:
    """Return the flag that a word gives, spelt as most are: many parsers take `--max_len` for `--max-len`.

    >>> name("--max_len=5"), name("-t"), name("a_b")
    ('--max-len', '-t', 'a_b')
    """
    flag = word.partition("=")[0]
    return flag.replace("_", "-") if flag.startswith("--") else flag


def value(words: Sequence[str], *flags: str) -> str | None:
    """Return the value of the last of `flags` in `words`; None = it is not there.

    >>> value(["--bits", "4", "--max_bytes=7"], "--max-bytes"), value(["--bits"], "--bits")
    ('7', None)
    """
    found = None
    for i, word in enumerate(words):
        if name(word) in flags:
            _, equals, rest = word.partition("=")
            found = rest if equals else words[i + 1] if i + 1 < len(words) else found
    return found


def given(words: Sequence[str], *flags: str) -> bool:
    """Return whether one of `flags` is in `words`."""
    return any(name(word) in flags for word in words)


def count(words: Sequence[str], *flags: str) -> int | None:
    """Return the whole number, at least 1, that the last of `flags` states; None = none, or no such number.

    >>> count(["--kept", "4"], "--kept"), count(["--kept=many"], "--kept")
    (4, None)
    """
    stated = value(words, *flags)
    return int(stated) if stated is not None and stated.isdecimal() and int(stated) > 0 else None


def size(text: str, units: Mapping[str, int]) -> int | None:
    """Return the bytes that `text` means where suffixes are `units`; None = it is no size to that program.

    >>> size("4GB", DECIMAL), size("2G", BINARY), size("much", BINARY)
    (4000000000, 2147483648, None)
    """
    found = _SIZE.fullmatch(text.strip())
    unit = units.get(found[2]) if found else None
    return None if found is None or unit is None else int(float(found[1]) * unit)
