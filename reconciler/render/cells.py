"""Text in the cells of a terminal, where some characters take two and colours take none."""

import re
from typing import Final

from rich.cells import cell_len, set_cell_size

_CODE: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_RESET: Final = "\x1b[0m"


def width_of(text: str) -> int:
    """Return how many cells a text takes; colours take none."""
    return cell_len(_CODE.sub("", text))


def cut(text: str, width: int) -> str:
    """Return as much of a text as fits into so many cells; one that was cut ends with `~`.

    >>> cut("memory", 6), cut("memory", 5), cut("\\x1b[31mred\\x1b[0m", 2)
    ('memory', 'memo~', '\\x1b[31mr~\\x1b[0m')
    """
    if width_of(text) <= width:
        return text
    left, shown, coloured = max(0, width - 1), "", False
    for piece in _CODE.split(text):
        if _CODE.fullmatch(piece):
            shown, coloured = shown + piece, piece != _RESET
        elif cell_len(piece) <= left:
            shown, left = shown + piece, left - cell_len(piece)
        else:
            shown += set_cell_size(piece, left)
            break
    mark = "~" if width > 0 else ""
    return shown + mark + (_RESET if coloured else "")


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text that fills so many cells, cut if it is too long."""
    shown = cut(text, width)
    blanks = " " * (width - width_of(shown))
    return blanks + shown if right else shown + blanks
