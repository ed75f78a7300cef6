"""The values that flags of the embedded llama.cpp server take. Standard library only."""

import re
from collections.abc import Callable, Mapping
from typing import Final

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
#: llama.cpp keeps its numbers in 32 bits.
_MOST: Final = 2**31 - 1

FITS: Final = {"on": "on", "off": "off"}
LAYERS: Final = {"auto": -1, "all": -2}
LOAD_MODES: Final = {
    "auto": "LLAMA_LOAD_MODE_AUTO",
    "none": "LLAMA_LOAD_MODE_NONE",
    "mmap": "LLAMA_LOAD_MODE_MMAP",
    "mlock": "LLAMA_LOAD_MODE_MLOCK",
    "mmap+mlock": "LLAMA_LOAD_MODE_MMAP_MLOCK",
    "dio": "LLAMA_LOAD_MODE_DIRECT_IO",
}
CACHE_TYPES: Final = {
    name: f"GGML_TYPE_{name.upper()}"
    for name in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
}
POOLINGS: Final = {
    name: f"LLAMA_POOLING_TYPE_{name.upper()}" for name in ("none", "mean", "cls", "last", "rank")
}
FLASH: Final = {
    "on": "LLAMA_FLASH_ATTN_TYPE_ENABLED",
    "off": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
    "auto": "LLAMA_FLASH_ATTN_TYPE_AUTO",
}
SPLITS: Final = {name: f"LLAMA_SPLIT_MODE_{name.upper()}" for name in ("none", "layer", "row", "tensor")}
REASONINGS: Final = {
    "none": "COMMON_REASONING_FORMAT_NONE",
    "auto": "COMMON_REASONING_FORMAT_AUTO",
    "deepseek": "COMMON_REASONING_FORMAT_DEEPSEEK",
    "deepseek-legacy": "COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY",
}

SPECULATIONS: Final = {
    name: f"COMMON_SPECULATIVE_TYPE_{name.upper().replace('-', '_')}"
    for name in (
        "none",
        "draft-simple",
        "draft-eagle3",
        "draft-mtp",
        "draft-dflash",
        "draft-dspark",
        "ngram-simple",
        "ngram-map-k",
        "ngram-map-k4v",
        "ngram-mod",
        "ngram-cache",
    )
}


def whole_number(value: str, most: int = _MOST) -> int:
    """Return the number that llama.cpp reads. Raises `ValueError` where it would stop, or read only a part of it."""
    if not _WHOLE.fullmatch(value):
        raise ValueError("is not a whole number")
    number = int(value)
    if not -_MOST - 1 <= number <= most:
        raise ValueError("is too large a number")
    return number


def seed_number(value: str) -> int:
    """Return the seed, which has no sign. Raises `ValueError`."""
    number = whole_number(value, 2 * _MOST + 1)
    if number < 0:
        raise ValueError("is not a whole number from 0")
    return number


def layers(value: str) -> int:
    """Return how many layers go to a GPU, as the library counts them. Raises `ValueError`."""
    return LAYERS[value] if value in LAYERS else whole_number(value)


def scaled_files(value: str) -> list[tuple[str, float]]:
    """Return the files of `FILE:SCALE,FILE:SCALE` with their scales. Raises `ValueError`."""
    result = []
    for item in filter(None, value.split(",")):
        file, colon, scale = item.rpartition(":")
        if not colon or not file:
            raise ValueError(f"{item} is not FILE:SCALE")
        result.append((file, float(scale)))
    return result


def speculations(value: str) -> list[str]:
    """Return what the names of a list with commas stand for. Raises `ValueError`."""
    return [one_of(SPECULATIONS, name) for name in value.split(",")]


def one_of(members: Mapping[str, str], value: str) -> str:
    """Return what `value` stands for. Raises `ValueError`, which lists what it may be."""
    if value not in members:
        raise ValueError(f"must be one of {', '.join(sorted(members))}")
    return members[value]


def among(members: Mapping[str, str]) -> Callable[[str], str]:
    """Return a check that a value is one of `members`."""
    return lambda value: one_of(members, value)
