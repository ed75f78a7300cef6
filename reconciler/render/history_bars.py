"""A day as one line of 24 bars."""

from collections.abc import Sequence
from typing import Final

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_PLAIN: Final = ".123456789"


def bars(counts: Sequence[int], *, blocks: bool) -> str:
    """Return a character for each count, as high as its share of the greatest; something is never shown as nothing.

    `blocks`: with block characters, else with digits.

    >>> bars([0, 1, 50, 100], blocks=False), bars([0, 0], blocks=True)
    ('.149', '  ')
    """
    scale = _BLOCKS if blocks else _PLAIN
    top, most = len(scale) - 1, max(counts, default=0)
    return "".join(scale[max(1, round(count * top / most))] if count else scale[0] for count in counts)
