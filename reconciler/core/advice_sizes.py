"""How much less of a model there could be, and the smallest step that is enough."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Final

from reconciler.core import book
from reconciler.core.diff import Row
from reconciler.core.shares import own

#: Bytes are looked for in steps of this.
STEP: Final = 1 << 20
#: A model keeps this share of its context in any case: with less of it than that it is of no use to anybody.
CONTEXT_KEPT: Final = 1 / 8
#: And where its context is not known, this share of all it takes.
SIZE_KEPT: Final = 1 / 2
#: Of the most that there could be, these parts are tried.
PARTS: Final = (8, 4, 2, 1)


def steps(count: int) -> int:
    """Return how many whole steps so many bytes take."""
    return -(-count // STEP)


def smallest(works: Callable[[int], bool], most: int, guess: int) -> int | None:
    """Return a number from 1 to `most` that works while the next lower one does not, or None if none was found.

    0 is known not to work; `guess` is tried first, and is usually the answer. What works need not stop to work only
    downwards: with more room another model may come first. So some numbers between are tried before `most`.
    """
    low = 0
    probes = sorted({guess, *(-(-most // part) for part in PARTS)})
    for high in (p for p in probes if 0 < p <= most):
        if works(high):
            break
        low = high
    else:
        return None
    if high == guess and (guess == 1 or not works(guess - 1)):
        return guess
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def context_bytes(row: Row) -> int | None:
    """Return the bytes of a model's context as far as they are known: what the engine said, else the estimate."""
    if row.spec.steady is not None or row.preflight is None or row.preflight.parts is None:
        return None
    parts = row.preflight.parts
    if row.entry is not None and row.entry.said is not None:
        parts = book.corrected(parts, row.entry.said)
    return parts.context


def spare(row: Row) -> int:
    """Return the bytes that a model could do without: of its context, or of what it holds alone."""
    charged = row.size if row.instance is None else row.charge
    files = row.files if row.instance is None else row.held_files
    alone = own(charged or 0, files)
    context = context_bytes(row)
    if context is not None:
        return min(alone, int(context * (1 - CONTEXT_KEPT)))
    return min(alone, int((charged or 0) * (1 - SIZE_KEPT)))


@dataclass(frozen=True, slots=True)
class Unit:
    """The least by which there can be less of a model: bytes, and the tokens of context they are if that is known."""

    bytes: int = STEP
    #: 0 = the engine takes any number of tokens, or what it makes of them is not known.
    tokens: int = 0


def unit(row: Row) -> Unit:
    """Return the least by which there can be less of a model: a step of its engine, else `STEP` bytes.

    An engine that rounds its context up to a multiple of some number frees nothing for a few tokens less.
    """
    known = row.preflight
    if known is None or context_bytes(row) is None or not known.context_step or not known.context_step_bytes:
        return Unit()
    return Unit(known.context_step_bytes, known.context_step)


def most(row: Row) -> int:
    """Return how many units there could be less of a model."""
    least = unit(row)
    count = spare(row) // least.bytes
    whole = _whole(row)
    return min(count, (whole - 1) // least.tokens) if whole and least.tokens else count


def units(row: Row, count: int) -> int:
    """Return how many whole units of a model so many bytes take."""
    return -(-count // unit(row).bytes)


def tokens(row: Row, count: int) -> tuple[int | None, int | None]:
    """Return how many tokens of context fewer so many units are, and how many are left; None = not known."""
    context, whole, least = context_bytes(row), _whole(row), unit(row)
    if not context or not whole:
        return None, None
    if not least.tokens:
        fewer = ceil(count * least.bytes * whole / context)
        return fewer, whole - fewer
    # What is asked for beyond a multiple is rounded up, and up to it nothing is gained.
    left = -(-whole // least.tokens) * least.tokens - count * least.tokens
    return whole - left, left


def _whole(row: Row) -> int | None:
    """Return the tokens of context of all slots, as asked for, or fewer if the engine took fewer; None = not known."""
    asked = row.preflight.context_tokens if row.preflight is not None else None
    said = row.entry.said.context_tokens if row.entry is not None and row.entry.said is not None else None
    known = [count for count in (asked, said) if count]
    return min(known) if known else None
