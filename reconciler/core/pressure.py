"""Is the machine short of memory? Judged from looks over some seconds, never from one reading.

The marks are shares of the memory in use by everybody. What else tells of shortage (swapping, stalled tasks, the
system's own level) counts as the soft or the hard mark, whatever the use is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Final

from reconciler.core.memory import Memory, Stall, Swap, Watermarks

#: Share of the window for which memory must have been short before a model is evicted for it, and for which it must
#: not have been before anything is loaded again; less of it when it is urgent.
EVIDENCE: Final = 0.5
URGENT: Final = 0.2
#: Bytes a second written to swap over that time: above the first nothing is loaded unasked, above the second a model
#: goes. Swap in use is no pressure (it stays long after), growth is.
SWAP_NOTICED: Final = 64 << 10
SWAP_HARD: Final = 1 << 20
#: Percent of the last 10 s in which tasks waited for memory (facts of Linux PSI): some of them, or all of them.
STALL_SOME: Final = 5.0
STALL_FULL: Final = 5.0
#: Bytes the compressor may grow by within a window before nothing is loaded unasked.
COMPRESSED: Final = 1 << 30


class Level(IntEnum):
    """How short memory is."""

    CALM = 0
    #: Only what somebody waits for is loaded.
    SOFT = 1
    #: Idle models go, one after the other.
    HARD = 2
    #: Busy ones go too; pinned ones stay.
    CRITICAL = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """What one look says; `used` is the share of the memory in use, warm pages of our models included."""

    at: float
    used: float | None
    swap: Swap
    stall: Stall


@dataclass(frozen=True, slots=True)
class Pressure:
    """The judgement, and the looks it rests on. Times are monotonic seconds."""

    level: Level = Level.CALM
    #: Mean share in use over the window; None = unknown.
    used: float | None = None
    #: The hard mark was passed for long enough, and use is not yet below the target again.
    relieving: bool = False
    #: The looks since the last eviction say enough to evict one more.
    evident: bool = False
    #: Since when the looks say without a break that a model has to go; None = they do not.
    since: float | None = None
    #: Bytes above the target.
    excess: int = 0
    #: What is the matter, for people; "" = nothing.
    cause: str = ""
    samples: tuple[Sample, ...] = ()


def share_used(memory: Memory, warm: int) -> float | None:
    """Return the share of the memory in use. `warm` bytes of our models count as used: the kernel calls them free."""
    if not memory.total or memory.available is None:
        return None
    warm = warm if memory.files is None else min(warm, memory.files)
    return min(1.0, max(0.0, 1.0 - (memory.available - warm) / memory.total))


def observe(
    before: Pressure, memory: Memory, warm: int, marks: Watermarks | None, max_swap: int | None, now: float
) -> Pressure:
    """Return the judgement after one more look. Without marks nothing is ever the matter."""
    if marks is None:
        return Pressure()
    samples = _kept(before, Sample(now, share_used(memory, warm), memory.swap, memory.stall), marks)
    used = _mean([s for s in samples if s.at > now - marks.window])
    recent = _mean([s for s in samples if s.at > now - marks.window * URGENT])
    by_use = _use_sign(used, recent, marks)
    level, cause = max([by_use, *_swap_signs(samples, marks, max_swap), *_stall_signs(samples)], key=_level)
    hard = level >= Level.HARD
    enough = marks.window * EVIDENCE
    latched = before.relieving and (used is None or used >= marks.target or now - samples[0].at < enough)
    since = (now if before.since is None else before.since) if hard or latched else None
    needed = marks.window * URGENT if level is Level.CRITICAL else enough
    # A mean is slow to follow: looks that have all said it themselves are evidence as well.
    lasting = since is not None and max(now - since, _all_above(samples, marks.hard)) >= needed
    relieving = latched or (hard and lasting)
    if relieving and not hard:
        cause = f"{_percent(used)} of the memory is in use, to be brought below {_percent(marks.target)}"
    excess = int(((used or 0.0) - marks.target) * (memory.total or 0))
    over = hard or (used is not None and used >= marks.target)
    # The mean lags: whoever took the memory may have left just now, and nobody need go for that.
    past = level is by_use[0] and recent is not None and recent < marks.target
    return Pressure(
        level, used, relieving, lasting and over and not past, since, max(0, excess), cause, samples
    )


def _kept(before: Pressure, newest: Sample, marks: Watermarks) -> tuple[Sample, ...]:
    """Return the looks within the window, and the last one before it: at the calm pace there is no other."""
    older = [s for s in before.samples if s.at < newest.at]
    outside = sum(1 for s in older if s.at <= newest.at - marks.window)
    return (*older[max(0, outside - 1) :], newest)


def _mean(samples: list[Sample]) -> float | None:
    """Return the mean over time, use taken to change evenly between looks: many looks at once weigh no more."""
    known = [(s.at, s.used) for s in samples if s.used is not None]
    if len(known) < 2:
        return known[0][1] if known else None
    area = sum((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(known))
    return area / (known[-1][0] - known[0][0])


def _all_above(samples: tuple[Sample, ...], mark: float) -> float:
    """Return the seconds for which every look, the newest included, has read at least this use."""
    start = samples[-1].at
    for sample in reversed(samples):
        if sample.used is None or sample.used < mark:
            break
        start = sample.at
    return samples[-1].at - start


def evicted(before: Pressure) -> Pressure:
    """Return the judgement after a model has gone: what was seen before says nothing about what is left to do."""
    return replace(before, samples=(), since=None, evident=False)


def next_look(pressure: Pressure, marks: Watermarks | None, now: float) -> float | None:
    """Return when to look again for the sake of this judgement; None = the ordinary pace will do."""
    if marks is None or not pressure.samples:
        return None
    newest = pressure.samples[-1].used
    near = newest is not None and newest >= marks.soft
    if pressure.level is Level.CALM and not pressure.relieving and not near:
        return None
    return now + min(1.0, max(0.1, marks.window / 10))


Sign = tuple[Level, str]


def _level(sign: Sign) -> Level:
    return sign[0]


def _use_sign(used: float | None, recent: float | None, marks: Watermarks) -> Sign:
    """Return what the use says: the mean over the window, and for the critical mark over its last part."""
    if recent is not None and recent >= marks.critical:
        return Level.CRITICAL, _passed(recent, Level.CRITICAL, marks.critical)
    for level, mark in ((Level.HARD, marks.hard), (Level.SOFT, marks.soft)):
        if used is not None and used >= mark:
            return level, _passed(used, level, mark)
    return Level.CALM, ""


def _passed(used: float, level: Level, mark: float) -> str:
    return f"{_percent(used)} of the memory is in use, the {level.name.lower()} mark is {_percent(mark)}"


def _swap_signs(samples: tuple[Sample, ...], marks: Watermarks, max_swap: int | None) -> Iterable[Sign]:
    last = samples[-1]
    # The newest look that is old enough: what was swapped before it has ended.
    first = next((s for s in reversed(samples) if last.at - s.at >= marks.window * EVIDENCE), None)
    if first is None:
        return
    span = last.at - first.at
    written = _growth(first.swap.written, last.swap.written) / span
    read = _growth(first.swap.read, last.swap.read) / span
    if written >= SWAP_NOTICED:
        level = Level.HARD if written >= SWAP_HARD else Level.SOFT
        yield level, f"the machine swaps out {written / (1 << 20):.1f} MiB/s"
    over = max_swap is not None and last.swap.used is not None and last.swap.used > max_swap
    if over and max(written, read) >= SWAP_NOTICED:
        yield Level.HARD, "more swap is in use than machine.swap.max_used, and the machine swaps"
    if _growth(samples[0].stall.compressed, last.stall.compressed) > COMPRESSED:
        yield Level.SOFT, "the memory compressor grows"


def _stall_signs(samples: tuple[Sample, ...]) -> Iterable[Sign]:
    stall = samples[-1].stall
    full = [s.stall.full for s in samples[-2:]]
    if len(full) == 2 and all(value is not None and value > STALL_FULL for value in full):
        yield Level.HARD, f"all tasks waited for memory {full[-1]:.0f} % of the last 10 s"
    if stall.some is not None and stall.some > STALL_SOME:
        yield Level.SOFT, f"tasks waited for memory {stall.some:.0f} % of the last 10 s"
    if stall.level is not None and stall.level >= 2:
        level = Level.HARD if stall.level >= 4 else Level.SOFT
        yield level, f"the system reports memory pressure level {stall.level}"


def _growth(first: int | None, last: int | None) -> int:
    return max(0, last - first) if first is not None and last is not None else 0


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share * 100:.0f} %"
