"""The progress of a measurement, on standard error."""

import sys
import time
from collections.abc import Callable
from typing import Final

from reconciler.cli.output import note

_POLL: Final = 0.25


def telling(model: str) -> Callable[[str, int | None], None]:
    """Return what shows progress: each phase once, and on a terminal the seconds as well."""
    shown: list[str] = []

    def tell(phase: str, holds: int | None) -> None:
        word = phase.partition(",")[0]
        if sys.stderr.isatty():
            _show(f"{word} {model}{phase.removeprefix(word)}", holds, last=word == "ending")
        elif word not in shown:
            shown.append(word)
            note(f"{word} {model}")

    return tell


def count_down(model: str, deadline: float, holds: Callable[[], int | None]) -> None:
    """Show the seconds left until `deadline`, and what the model holds so far; return then."""
    tell = telling(model)
    try:
        while (left := deadline - time.monotonic()) > 0:
            tell(f"watching, {left:.0f} s left", holds())
            time.sleep(min(_POLL, left))
    finally:
        if sys.stderr.isatty():
            _show(f"watched {model}", holds(), last=True)


def _show(text: str, holds: int | None, *, last: bool) -> None:
    """Write over the line of progress on a terminal."""
    from reconciler.render.units import size

    held = f", {size(holds)} so far" if holds is not None else ""
    sys.stderr.write(f"\r\x1b[K{text}{held}" + ("\n" if last else ""))
    sys.stderr.flush()
