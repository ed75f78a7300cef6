"""Sizes and durations as people read them; used in the details of steps and verdicts."""

from typing import Final

_UNITS: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(count: int | None) -> str:
    """Return bytes as text with one decimal from GiB on: `18.1 GiB`, `512 MiB`, `unknown` for None.

    >>> size(19434657382), size(536870912), size(None), size(-(2**30))
    ('18.1 GiB', '512 MiB', 'unknown', '-1.0 GiB')
    """
    if count is None:
        return "unknown"
    magnitude = abs(count)
    for unit, name in _UNITS:
        if magnitude >= unit:
            digits = 1 if unit >= 1 << 30 else 0
            return f"{count / unit:.{digits}f} {name}"
    return f"{count} B"


def span(seconds: float) -> str:
    """Return a duration as text: `3.1s`, `45s`, `14m`, `3h`, `2d`.

    >>> span(3.14), span(45), span(850), span(12000), span(200000)
    ('3.1s', '45s', '14m', '3h', '2d')
    """
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 120:
        return f"{seconds:.0f}s"
    if seconds < 7200:
        return f"{int(seconds // 60)}m"
    if seconds < 172800:
        return f"{int(seconds // 3600)}h"
    return f"{int(seconds // 86400)}d"


def times(count: int) -> str:
    """Return how often: `once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"


def counted(count: int, thing: str) -> str:
    """Return a number with its noun: `1 request`, `2 requests`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
