"""Everything measured, as one page."""

from typing import Final

from reconciler.board import Snapshot
from reconciler.counts import Counts
from reconciler.gateway.metrics import counted, machine, models, process, run
from reconciler.gateway.metrics.exposition import Page
from reconciler.leases import Traffic

#: Every metric there is, in the order of the page.
FAMILIES: Final = (*run.FAMILIES, *machine.FAMILIES, *models.FAMILIES, *counted.FAMILIES, *process.FAMILIES)


def page(
    snapshot: Snapshot, traffic: Traffic, counts: Counts, now: float, open_metrics: bool = False
) -> bytes:
    """Return everything measured, as text. `now` is a reading of the snapshot's clock."""
    made = Page(FAMILIES, open_metrics=open_metrics)
    run.write(made, snapshot, traffic, counts.turns, now)
    machine.write(made, snapshot)
    models.write(made, snapshot, traffic, now)
    counted.write(made, counts)
    process.write(made)
    return made.text()
