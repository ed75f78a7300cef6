"""`reconcile` that knows the habits of the requests in its ledger, and has no patience. Arguments are its own.

$PACE says how many seconds a minute is between two loads in advance, and $VAIN_AFTER after how many such a load counts
as in vain although it is still there.
"""

import os
import sqlite3
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import reconciler.loop.loop
from reconciler.cli import main
from reconciler.core import prewarm, prewarms
from reconciler.core.habits import Habits
from reconciler.core.types import Chance
from reconciler.loop.journal import Journal
from reconciler.loop.outlook import Chances, Outlook
from reconciler.store.paths import DATABASE

#: From the clock of the loop to the times in the ledger.
WALL = time.time() - time.monotonic()


def remembered() -> Habits:
    """Return the habits that the requests in the ledger tell."""
    habits = Habits()
    path = Path(sys.argv[sys.argv.index("--state-dir") + 1]) / DATABASE
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        for at, model, seconds in db.execute("SELECT at, model, seconds FROM requests ORDER BY at"):
            habits.arrived(model, at)
            habits.ended(model, at + seconds)
    return habits


class Informed(Outlook):
    """An outlook with habits from the ledger."""

    def __init__(self, journal: Journal, chances: Chances, *, once: bool) -> None:
        habits = remembered()

        def known(models: Iterable[str], now: float) -> tuple[Chance, ...]:
            return habits.chances(models, now + WALL)

        super().__init__(journal, known, once=once)


if __name__ == "__main__":
    loop: Any = reconciler.loop.loop
    loop.Outlook = Informed
    pace: Any = prewarm
    pace.PACE = pace.RECENT = float(os.environ["PACE"])
    vain: Any = prewarms
    vain.VAIN_AFTER = float(os.environ["VAIN_AFTER"])
    sys.exit(main())
