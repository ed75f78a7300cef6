"""The last line of a model's log, fit to be shown to a client."""

from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.excerpt import excerpt, secrets_of

TAIL_BYTES: Final = 4096


def last_line(path: str, spec: LaunchSpec | None) -> str | None:
    """Return the last line the model's server wrote, as an excerpt; None = no such line. Blocking.

    `spec` is how it was launched: its secrets are not shown.
    """
    for place in (path, f"{path}.1"):  # what was written last may have been rotated just now
        try:
            own = _own_lines(Path(place))
        except OSError:
            return None  # the message is complete without it
        if own:
            return excerpt(own[-1], secrets_of(spec))
    return None


def _own_lines(path: Path) -> list[str]:
    """Return the lines at the end of a file that are the server's own. Raises OSError."""
    with path.open("rb") as file:
        begin = max(0, file.seek(0, 2) - TAIL_BYTES)
        file.seek(begin)
        text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    if begin:  # half a word may be half a secret, which nothing recognises
        text = text[next((i for i, c in enumerate(text) if c.isspace()), len(text)) :]
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("--- ")]  # "--- " are the manager's notes
