"""Which weights a process was started with, and when those on disk count as others: not at once, nor all the time."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight
from reconciler.core.words import counted, span
from reconciler.loop.launches import Launch
from reconciler.memory.fingerprint import Marks

#: Seconds for which files must not have changed before they replace those of a process that serves well: whoever writes
#: them may pause.
UNTOUCHED_SECONDS: Final = 30.0
#: A process is replaced for its weights at most so often, in seconds: the model may write into its own folder.
PACE: Final = 600.0
#: Files that a note names.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found of a model's files at one look."""

    spec: LaunchSpec
    #: Monotonic and wall seconds.
    at: float
    wall: float
    result: Preflight
    marks: Marks | None


@dataclass(slots=True)
class _Past:
    """What became of the weights of a model with these settings."""

    digest: str
    #: Others are in place, and a new process is due for them.
    due: bool = False
    #: When one was begun for that, monotonic seconds.
    replaced: float = float("-inf")
    #: Files that were changed while a process was being loaded: the last one, and so far this one.
    written: frozenset[str] = frozenset()


class Weights:
    """Remembers what processes were started with. Belongs to the loop's task."""

    def __init__(self) -> None:
        self._past: dict[str, _Past] = {}

    def begin(self, launch: Launch, found: Preflight, seen: Marks | None, now: float) -> None:
        """Note what a process is started with, and whether that is for other weights than the last one had."""
        launch.build, launch.weights, launch.marks = found.build, found.weights, seen
        past = self._of(launch)
        if past.due:
            past.replaced, past.due = now, False

    def ready(self, launch: Launch, found: Preflight, seen: Marks | None) -> None:
        """Note what was changed while it was loaded. What each load changes anew is of the model's own making.

        What is changed once may have been put there by somebody meanwhile: then it has to be loaded again.
        """
        past = self._of(launch)
        if launch.marks is None or seen is None:
            return
        written = frozenset(launch.marks.others(seen))
        if written and written <= past.written:
            launch.marks = seen
            launch.weights = found.weights
        past.written = written

    def fill_in(self, launch: Launch, found: Checked) -> bool:
        """Note the weights of a process that were too young when it was started, if they still are what they were."""
        if launch.weights or not found.result.weights or found.marks is None:
            return False
        # Of one that was adopted it is known when it was begun: what was changed before that is what it has.
        if launch.marks is None and found.marks.changed >= launch.created - UNTOUCHED_SECONDS:
            return False
        if launch.marks is not None and launch.marks.files != found.marks.files:
            return False
        launch.weights = found.result.weights
        return True

    def judged(self, launch: Launch, found: Checked, now: float) -> Preflight:
        """Return what a look found, as it counts for the process that runs, or sleeps: other weights are unknown yet
        where they may still be written, or have been replaced a moment ago.
        """
        result = found.result
        others = launch.marks.others(found.marks or Marks()) if launch.marks is not None else ()
        if result.reason is not None:
            if not others:
                return result
            text = f"its files are not what it was started with ({_named(others)}): it serves on with what it has"
            return replace(result, notes=(*result.notes, text))
        if not _differ(launch.weights, result.weights):
            return result
        which = f" ({_named(others)})" if others else ""
        if found.marks is None or found.wall - found.marks.changed < UNTOUCHED_SECONDS:
            text = f"its weights were replaced{which}: they count once nobody has changed them for 30 s"
            return _held(result, text)
        past = self._of(launch)
        if now - past.replaced < PACE:
            left = span(past.replaced + PACE - now)
            text = f"its weights were changed again{which}: it is not loaded anew for that for another {left}"
            return _held(result, text)
        past.due = True
        return result

    def _of(self, launch: Launch) -> _Past:
        past = self._past.get(launch.model)
        if past is None or past.digest != launch.digest:
            past = self._past[launch.model] = _Past(launch.digest)
        return past


def _held(result: Preflight, note: str) -> Preflight:
    """Return the result with weights of which nothing is known, and what may stand behind them as it is."""
    _, plus, sources = result.weights.partition("+")
    return replace(result, weights=f"{plus}{sources}", notes=(*result.notes, note))


def _differ(was: str, now: str) -> bool:
    first, second = was.partition("+")[0], now.partition("+")[0]
    return bool(first and second) and first != second


def _named(paths: tuple[str, ...]) -> str:
    names = ", ".join(Path(path).name for path in paths[:_NAMED])
    return names if len(paths) <= _NAMED else f"{names} and {counted(len(paths) - _NAMED, 'more file')}"
