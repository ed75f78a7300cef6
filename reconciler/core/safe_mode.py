"""Whether the machine itself has gone down again and again while models were loaded: then only pinned ones are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from reconciler.core.types import Manifest, Observation, Reason, Residency
from reconciler.core.words import times

#: So many boots in a row that ended so.
LOST_BOOTS: Final = 3
#: Seconds without a load and with enough memory after which what was loaded did no harm, and safe mode is over.
CALM_SECONDS: Final = 60.0
SAFE_SECONDS: Final = 600.0


class Run(Protocol):
    """One run of the manager, as it is on record."""

    @property
    def boot_id(self) -> str: ...
    @property
    def risk(self) -> str: ...
    @property
    def ended(self) -> bool: ...
    @property
    def left_safe_mode(self) -> bool: ...


def lost(runs: Sequence[Run], boot: str) -> tuple[Run, ...]:
    """Return the last run of each boot before this one that took its risk into the machine's end, the newest first.

    `runs` are in order. A boot whose last run ended as it should, or risked nothing, ends the row. A crash of the
    manager alone is followed by a run of the same boot: it says nothing. Where the system names no boot nothing is
    known.
    """
    last: dict[str, Run] = {}
    for run in runs:
        last.pop(run.boot_id, None)  # to the end: boots are sorted by their last run
        last[run.boot_id] = run
    found: list[Run] = []
    for boot_id, run in reversed(last.items()):
        if boot_id == boot:
            continue
        if not boot_id or not boot or run.ended or not run.risk:
            break
        found.append(run)
    return tuple(found)


def why(runs: Sequence[Run], boot: str) -> str:
    """Return why only pinned models are to be loaded during this boot, or "": a sentence for people."""
    found = lost(runs, boot)
    if len(found) < LOST_BOOTS or any(run.left_safe_mode for run in runs if run.boot_id == boot):
        return ""
    return (
        f"the machine went down {times(len(found))} in a row while models were loaded or memory was short"
        f" (the last time: {found[0].risk}): only pinned models are loaded until it was calm for"
        f" {SAFE_SECONDS / 60:.0f} minutes, or somebody says `reconcile resume`"
    )


def restrained(seen: Observation, manifest: Manifest, why: str) -> Observation:
    """Return what was seen, with all models but the pinned ones as ones that cannot be started for `why`."""
    if not why:
        return seen
    pinned = {model.name for model in manifest.models if model.residency is Residency.PINNED}
    found = (
        known
        if known.model in pinned or known.reason is not None
        else replace(known, reason=Reason.NOT_STARTABLE, message=f"safe mode: {why}")
        for known in seen.preflights
    )
    return replace(seen, preflights=tuple(found))
