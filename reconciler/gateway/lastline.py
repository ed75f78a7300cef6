"""The last line of a model's log, fit to be shown to a client."""

from pathlib import Path
from typing import Final

from reconciler.telemetry import MASK, is_secret_name, mask_argv

TAIL_BYTES: Final = 4096
SHOWN_CHARACTERS: Final = 300


def last_line(path: str) -> str | None:
    """Return the last line the model's server wrote, shortened, secrets masked; None = no such line. Blocking."""
    try:
        with Path(path).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return None  # the message is complete without it
    lines = [line.strip() for line in text.splitlines()]
    own = [line for line in lines if line and not line.startswith("--- ")]  # "--- " are the manager's notes
    return mask(own[-1]) if own else None


def mask(line: str) -> str:
    """Return a line without control characters and without what looks like the value of a secret.

    >>> mask("started with --api-key hunter2 token: abc")
    'started with --api-key *** token: ***'
    """
    words = mask_argv("".join(c if c.isprintable() else " " for c in line).split())
    for index, word in enumerate(words[:-1]):
        if word.endswith((":", "=")) and is_secret_name(word[:-1]):
            words[index + 1] = MASK
    return " ".join(words)[:SHOWN_CHARACTERS]
