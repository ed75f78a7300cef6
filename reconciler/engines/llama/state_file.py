"""The tokens at the beginning of a file in which llama.cpp keeps a slot. The rest of it is for llama.cpp alone."""

import struct
from pathlib import Path
from typing import Final

from reconciler.memory.regular import open_regular

#: `LLAMA_STATE_SEQ_MAGIC` as it lies in the file, before a version and a number of words.
_MAGIC: Final = b"qsgg"
_HEADER: Final = struct.Struct("<4sII")
#: Since autumn 2026 the words begin with this mark, a version and the number of tokens, and end with other things.
_MARK: Final = 0xFFFFFFFF
_MARKED_VERSION: Final = 1
_PRELUDE: Final = 3
#: No vocabulary has so many tokens, no context such a length.
_MOST_TOKENS: Final = 1 << 24
_LARGEST_TOKEN: Final = 1 << 24


def tokens_in(path: Path) -> list[int] | None:
    """Return the tokens whose state a file holds, or None if it cannot be told (images have none). Blocks."""
    try:
        with open_regular(path) as file:
            magic, _, count = _HEADER.unpack(file.read(_HEADER.size))
            if magic != _MAGIC or not 0 < count <= _MOST_TOKENS:
                return None
            words = list(struct.unpack(f"<{count}I", file.read(4 * count)))
    except (OSError, struct.error):
        return None
    if words[0] == _MARK:
        if len(words) < _PRELUDE or words[1] != _MARKED_VERSION or words[2] > len(words) - _PRELUDE:
            return None
        words = words[_PRELUDE : _PRELUDE + words[2]]
    return words if words and all(word < _LARGEST_TOKEN for word in words) else None
