"""Ledger arithmetic: what a model is charged, what the machine offers, what a failure costs. All bytes and seconds."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from reconciler.core import crashes
from reconciler.core.crashes import FailureKind
from reconciler.core.memory import Estimate, Memory, Said
from reconciler.core.starved import raised, until
from reconciler.core.types import Instance, LedgerEntry, Manifest, ModelSpec, Preflight
from reconciler.core.words import times

#: A model that served this long, or answered so many requests, is healthy: what failed before is forgotten. One that
#: dies of each first request answers none, and is tried more and more seldom.
STABLE_SECONDS: Final = 60.0
STABLE_ANSWERS: Final = 10
#: How the error of a ready model begins that ended by itself.
DIED: Final = "it died"
#: The same of one that answered nobody any more, and was ended for that.
HUNG: Final = "it hung"


def total(manifest: Manifest, memory: Memory) -> int | None:
    """Return the bytes of the machine models and system share: the smaller of what is stated and what is read."""
    known = [value for value in (manifest.memory, memory.total) if value is not None]
    return min(known) if known else None


def reserve(manifest: Manifest, memory: Memory) -> int | None:
    """Return the bytes kept for the system, which are also the floor that free memory must not pass."""
    if isinstance(manifest.reserve, int):
        return manifest.reserve
    whole = total(manifest, memory)
    return None if whole is None else int(whole * manifest.reserve)


def mark(manifest: Manifest, *, soft: bool = False) -> float:
    """Return the share of the machine's memory up to which a load may lead: the hard mark, or the soft one."""
    marks = manifest.watermarks
    if marks is None:
        return 1.0
    return min(marks.soft, marks.hard) if soft else marks.hard


def budget(manifest: Manifest, memory: Memory, share: float | None = None) -> int | None:
    """Return the bytes models may hold together; None = unknown.

    It is bounded by what is kept for the system, by `share` of the machine (default: the hard mark), and by what a
    GPU that shares the memory may use.
    """
    whole, kept = total(manifest, memory), reserve(manifest, memory)
    if whole is None or kept is None:
        return None
    bounds = [whole - kept]
    if memory.total is not None:
        bounds.append(int(memory.total * (mark(manifest) if share is None else share)))
    if memory.gpu is not None and memory.gpu.ceiling is not None:
        bounds.append(memory.gpu.ceiling)
    return max(0, min(bounds))


def floor(manifest: Manifest, memory: Memory, share: float | None = None) -> int | None:
    """Return the bytes that must stay available after a load; None = unknown."""
    kept = reserve(manifest, memory)
    if kept is None or memory.total is None:
        return kept
    return max(kept, memory.total - int(memory.total * (mark(manifest) if share is None else share)))


def capacity(
    manifest: Manifest, memory: Memory, instances: Iterable[Instance], share: float | None = None
) -> int | None:
    """Return the bytes all models together could be charged now; None = unknown, then nothing may be loaded.

    The budget bounds it, and so does what is really there: available + what our models already hold - floor. In this
    sum a model's warm pages count as available (they are on the file list), and its charge counts them again, so
    nothing is taken twice.
    """
    limit, kept = budget(manifest, memory, share), floor(manifest, memory, share)
    if limit is None or kept is None or memory.available is None:
        return None
    running = [i for i in instances if i.committed is not None]
    ours = sum(i.committed or 0 for i in running)
    bounds = [limit, memory.available + ours - kept]
    if memory.gpu is not None and memory.gpu.ceiling is not None and memory.gpu.used is not None:
        of_others = memory.gpu.used - sum(i.device for i in running)
        bounds.append(memory.gpu.ceiling - max(0, of_others))
    return max(0, min(bounds))


def held(instance: Instance) -> int | None:
    """Return the bytes measured of a running model (committed + warm); None = nothing could be read."""
    if instance.committed is None:
        return None
    return instance.committed + (instance.warm or 0)


def stray_charge(instance: Instance) -> int | None:
    """Return what a process is charged whose settings no spec in force describes: what it holds or was let in at.

    One that sleeps takes nothing again: nobody wakes it.
    """
    now_held = held(instance)
    return now_held if now_held is None or instance.asleep else max(now_held, instance.admitted)


def size(spec: ModelSpec, preflight: Preflight | None, entry: LedgerEntry | None) -> int | None:
    """Return the bytes a loaded model is charged: the larger of estimate and measured peak; None = unknown.

    The peak counts also while the model is not loaded: otherwise a model measured at 6 GiB would be evicted for its
    size and reloaded at its stated 1 GiB, for ever. So does what was too little for it a short time ago. What another
    build of the engine held, or the model with other weights, says nothing of this one.
    """
    entry = None if entry is None or _other(entry, preflight) else entry
    stated = spec.steady if spec.steady is not None else _estimated(preflight, entry)
    known = 0 if entry is None else max(entry.peak, entry.raised)
    if known <= 0:
        return stated
    return known if stated is None else max(stated, known)


def _other(entry: LedgerEntry, preflight: Preflight | None) -> bool:
    """Whether what was measured was measured with another build of the engine, or other weights."""
    if preflight is None:
        return False
    return _differ(entry.build, preflight.build) or _differ(entry.weights, preflight.weights)


def _differ(known: str, now: str) -> bool:
    return bool(known and now) and known != now


def _estimated(preflight: Preflight | None, entry: LedgerEntry | None) -> int | None:
    """Return the estimate, its context and compute buffers replaced by what the engine itself said it took."""
    if preflight is None:
        return None
    if preflight.parts is None or entry is None or entry.said is None:
        return preflight.steady
    return corrected(preflight.parts, entry.said).steady


def corrected(parts: Estimate, said: Said) -> Estimate:
    """Return the estimate with what the engine's log states in place of what was worked out."""
    return replace(
        parts,
        context=parts.context if said.context is None else said.context,
        compute=parts.compute if said.compute is None else said.compute,
    )


def load_need(
    spec: ModelSpec, preflight: Preflight | None, entry: LedgerEntry | None, known_size: int | None
) -> int | None:
    """Return the bytes reserved while a model loads: its peak, never less than its size; None = unknown."""
    if known_size is None:
        return None
    entry = None if entry is None or _other(entry, preflight) else entry
    return max(known_size, spec.peak or 0, _estimated_peak(preflight, entry) or 0)


def _estimated_peak(preflight: Preflight | None, entry: LedgerEntry | None) -> int | None:
    if preflight is None or preflight.parts is None or entry is None or entry.said is None:
        return preflight.peak if preflight is not None else None
    return corrected(preflight.parts, entry.said).peak


def charge(instance: Instance, known_size: int | None) -> int | None:
    """Return what a running model is charged: at least its size, and all it holds if it outgrew that.

    None while what it holds cannot be read: its stated size would make others go, or come, for a guess.
    """
    now_held = held(instance)
    return None if now_held is None else max(now_held, known_size or 0)


def measured(entry: LedgerEntry, instance: Instance) -> LedgerEntry:
    """Return the entry with the peak raised to the most the instance held (the same entry if it is not higher).

    What one holds that is not ready says nothing of what it takes: it may end before it has loaded anything. More than
    it was let in at is a fact all the same.
    """
    now_held = held(instance)
    if now_held is None:
        return entry
    most = max(now_held, (instance.most or 0) + (instance.warm or 0))
    if not instance.ready and most <= instance.admitted:
        return entry
    return entry if most <= entry.peak else replace(entry, peak=most)


def loaded(
    entry: LedgerEntry, seconds: float, build: str = "", said: Said | None = None, weights: str = ""
) -> LedgerEntry:
    """Return the entry after a load that took `seconds`. Failures stay until the model has proved stable."""
    return replace(entry, load_seconds=seconds, retry_at=None, build=build, said=said, weights=weights)


def begun(entry: LedgerEntry, build: str, weights: str = "") -> LedgerEntry:
    """Return the entry as a load with this engine build and these weights begins: what others held is forgotten.

    So are their failures, if these had the next try wait for a change.
    """
    known = replace(entry, build=build or entry.build, weights=weights or entry.weights)
    if not _differ(entry.build, build) and not _differ(entry.weights, weights):
        return known
    if gave_up(entry):
        known = replace(known, failures=0, retry_at=None)
    return replace(known, peak=0, said=None, raised=0, raised_until=None)


def gave_up(entry: LedgerEntry) -> bool:
    """Whether requests do not wait for the next try; see `core.crashes`."""
    return entry.kind is not None and crashes.given_up(entry.kind, entry.failures)


def waits(entry: LedgerEntry | None, preflight: Preflight | None, now: float) -> bool:
    """Whether a model is not to be tried yet after a failure. One that was given up is, once something has changed."""
    if entry is None or entry.retry_at is None or entry.retry_at <= now:
        return False
    return not (gave_up(entry) and _other(entry, preflight))


def failed(
    entry: LedgerEntry,
    error: str,
    now: float,
    kind: FailureKind = FailureKind.CRASHED,
    had: int = 0,
    *,
    afresh: bool = False,
) -> LedgerEntry:
    """Return the entry after a failed load or a crash: one more failure, and the time of the next try.

    `had` is how many bytes it was let in at, or held if that was more: with those it is not tried again if they were
    too few. `afresh`: what failed is left out at the next try, which is due at once if it is the first.
    """
    failures = entry.failures + 1
    due = now + (0.0 if afresh and failures == 1 else crashes.wait(kind, failures))
    return raised(replace(entry, failures=failures, retry_at=due, last_error=error, kind=kind), had, now)


def resumed(entry: LedgerEntry, now: float) -> LedgerEntry:
    """Return the entry as the manager takes it over from an earlier run: no wait is longer than it would be from now.

    The clock it was written by may have been another one. What has no end any more ends as if it began now.
    """
    if entry.retry_at is not None and entry.failures > 0:
        longest = now + crashes.wait(entry.kind or FailureKind.CRASHED, entry.failures)
        entry = replace(entry, retry_at=min(entry.retry_at, longest))
    return until(entry, now)


def crashed(
    entry: LedgerEntry,
    error: str,
    ran_seconds: float,
    answered: int,
    now: float,
    kind: FailureKind = FailureKind.CRASHED,
    had: int = 0,
) -> LedgerEntry:
    """Return the entry after a ready model died by itself: one that had been stable may come back at once.

    One that was so only by its answers is counted from the beginning: its next try is near, but never at once, for
    ten requests are quickly answered.
    """
    if ran_seconds >= STABLE_SECONDS:
        calm = replace(entry, failures=0, retry_at=None, last_error=error, kind=kind)
        return raised(calm, had, now)
    return failed(replace(entry, failures=0) if answered >= STABLE_ANSWERS else entry, error, now, kind, had)


def cause(entry: LedgerEntry) -> str:
    """Return the last error, for a sentence that begins with the `mishap`: that it died is said then."""
    return entry.last_error.removeprefix(f"{DIED}: ")


def mishap(entry: LedgerEntry) -> str:
    """Return how often a model failed, in the word for what it did last: `failed once`, `died 3 times`."""
    return f"{'died' if entry.last_error.startswith(DIED) else 'failed'} {times(entry.failures)}"


def stable(entry: LedgerEntry, ran_seconds: float, answered: int) -> LedgerEntry:
    """Return the entry with its failures forgotten once the model has run long enough, or answered enough."""
    if entry.failures == 0 or (ran_seconds < STABLE_SECONDS and answered < STABLE_ANSWERS):
        return entry
    return replace(entry, failures=0, retry_at=None)


def forgotten(entry: LedgerEntry) -> LedgerEntry:
    """Return the entry without what was measured and what failed: a person says that it does not hold any more."""
    fresh = replace(entry, peak=0, said=None, failures=0, retry_at=None, last_error="", kind=None)
    return replace(fresh, raised=0, raised_until=None)


def wished(entry: LedgerEntry) -> LedgerEntry:
    """Return the entry after a person asked for the model: the next try is due now, and is counted as the first."""
    return replace(entry, failures=0, retry_at=None)


def woken(entry: LedgerEntry) -> LedgerEntry:
    """Return the entry after a process that slept took its memory again: how long a load takes is another matter."""
    return replace(entry, retry_at=None)
