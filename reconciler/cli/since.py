"""`--since`: how far back, as a duration or as a local date and time."""

import time
from datetime import datetime

from reconciler.cli.output import UsageError
from reconciler.render.paint import one_line


def now() -> float:
    """Return the time of the wall's clock, in seconds."""
    return time.time()


def since_time(text: str | None, default: float) -> float:
    """Return wall-clock seconds: those `text` names, or so long ago as it says; None = `default` seconds ago.

    Raises UsageError, also for a time that is still to come.
    """
    from reconciler.manifest.sizes import UnitError, parse_duration

    today = now()
    if text is None:
        return max(0.0, today - default)
    try:
        return max(0.0, today - parse_duration(text))
    except UnitError:
        pass
    try:
        named = datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        text = one_line(text)
        raise UsageError(
            f'--since "{text}" is no time: write how long ago, like 90m, 24h or 7d, or when, like 2026-11-29 or'
            " 2026-11-29T08:30"
        ) from None
    if named > today:
        shown = datetime.fromtimestamp(today).isoformat(" ", "minutes")
        raise UsageError(
            f'--since "{one_line(text)}" is still to come: it is {shown} now; name a time before that'
        )
    return max(0.0, named)
