"""What a request waits for, in words and in seconds: nobody is kept waiting without a reason."""

from typing import Final
from urllib.parse import quote

from reconciler.board import Progress, Snapshot
from reconciler.core.types import LedgerEntry, Outcome
from reconciler.gateway.verdict_words import verdict_text

#: Seconds after which to try again where nothing was measured.
RETRY_AFTER_SECONDS: Final = 5.0
#: A load that takes longer than it should: ask again soon.
SOON_SECONDS: Final = 1.0


def retry_after(snapshot: Snapshot | None, model: str, now: float) -> float:
    """Return the seconds after which a request to the model may be served, from its measured load times.

    `now` is a reading of the snapshots' clock. A load in progress counts what is left of it.
    """
    if snapshot is None:
        return RETRY_AFTER_SECONDS
    progress = snapshot.progress
    loading = progress is not None and progress.model == model and progress.doing == "loading"
    if loading and progress is not None and progress.expected is not None:
        return max(SOON_SECONDS, progress.expected - (now - progress.since))
    if any(i.model == model and i.ready for i in snapshot.world.observation.instances):
        return RETRY_AFTER_SECONDS
    seconds, left = _load_seconds(snapshot, model), _rests(snapshot, model, now)
    if seconds is None:
        return left + RETRY_AFTER_SECONDS
    if progress is not None and progress.model != model and progress.expected is not None:
        left = max(left, progress.expected - (now - progress.since))
    return max(SOON_SECONDS, left + seconds)


def state_text(snapshot: Snapshot | None, model: str, now: float) -> str:
    """Return what happens to the model now: `loading chat, 12 s of about 18 s`; "" if nothing is known."""
    if snapshot is None:
        return ""
    progress = snapshot.progress
    if progress is not None and progress.model == model:
        return _progress_text(progress, now)
    verdict = snapshot.plan.verdict(model)
    ready = any(i.model == model and i.ready for i in snapshot.world.observation.instances)
    why = ""
    if verdict is not None and not (ready and verdict.outcome is Outcome.KEEP):
        why = verdict_text(verdict, max(0.0, now - snapshot.at))
    if progress is None:
        return why
    other = _progress_text(progress, now)
    return f"{why}; {other}" if why else other


def load_hint(model: str) -> str:
    """Return how a model that a request does not load can be loaded."""
    return f"POST /api/v1/models/{quote(model, safe='')}/load loads it, and so does any request with a body"


def place_text(place: int, of: int) -> str:
    """Return a place in a queue for people: `3rd in line`, `next in line`; "" for the only one."""
    if of <= 1:
        return ""
    return "next in line" if place <= 1 else f"{_ordinal(place)} in line"


def _progress_text(progress: Progress, now: float) -> str:
    since = max(0.0, now - progress.since)
    what = "saving the state of" if progress.doing == "saving" else progress.doing
    text = f"{what} {progress.model}, {since:.0f} s"
    bound = "about" if progress.doing == "loading" else "at most"
    return text if progress.expected is None else f"{text} of {bound} {progress.expected:.0f} s"


def _rests(snapshot: Snapshot, model: str, now: float) -> float:
    """Return the seconds until a load of the model may begin at all: it was unloaded, or failed, a moment ago."""
    verdict = snapshot.plan.verdict(model)
    if verdict is None or verdict.retry_in is None:
        return 0.0
    return max(0.0, verdict.retry_in - (now - snapshot.at))


def _load_seconds(snapshot: Snapshot, model: str) -> float | None:
    digest = next((m.digest for m in snapshot.applied.manifest.models if m.name == model), None)
    entry: LedgerEntry | None = next(
        (e for e in snapshot.world.ledger if e.model == model and e.digest == digest), None
    )
    return entry.load_seconds if entry is not None else None


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
