"""What is said of two builds of an engine."""

import re
from typing import Final

#: A digest, or a time, that nobody reads to its end.
_DIGEST: Final = re.compile(r"(?<![\w.])([0-9a-f]{8})[0-9a-f]{4,}(?![\w.])")


def other_build(was: str, now: str) -> str:
    """Say that the engine is another build than it was.

    >>> other_build("b1 0123456789abcdef", "")
    'the engine is another build since: unknown, it was b1 01234567...'
    """
    return f"the engine is another build since: {_short(now)}, it was {_short(was)}"


def _short(build: str) -> str:
    return _DIGEST.sub(r"\1...", build) or "unknown"
