"""Why launches fail, told apart, and when the next try is due. Pure; seconds, bytes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.core.words import span, times

#: Wait before the second try after a failure; doubled each time up to the cap. Five starts in the first minute.
BACKOFF_FIRST: Final = 2.0
BACKOFF_CAP: Final = 300.0
#: What no repetition mends is looked at again after this, and twice as long each time: the reading may be wrong.
MENDING_FIRST: Final = 300.0
#: After so many failures in a row (a quarter of an hour) a model is given up, but for one try an hour.
GIVE_UP_AFTER: Final = 10
GIVEN_UP_SECONDS: Final = 3600.0
#: What passes a limit of its own has as much at each try: so many in a row, and it is given up.
LIMITED_TRIES: Final = 3
#: One that ran out of memory is charged so much more: this share of what it had, and no less than these bytes.
RAISE_SHARE: Final = 0.1
RAISE_LEAST: Final = 64 << 20
#: For so long. The memory may have been somebody else's fault, and nobody is to be kept out for ever by that.
RAISE_SECONDS: Final = 3600.0


class FailureKind(StrEnum):
    """Why a launch failed."""

    #: It says itself that it got too little memory, on the host or on a GPU.
    OUT_OF_MEMORY = "OutOfMemory"
    #: The kernel ended it, for it passed the limit of its own that the manifest gives it.
    OVER_LIMIT = "OverLimit"
    #: Its weights, or another file of the model, are damaged, missing, or of a kind it does not know.
    BAD_FILE = "BadFile"
    #: It does not take one of its arguments, or not together with another.
    BAD_ARGUMENT = "BadArgument"
    #: The program, its interpreter or a package that it needs is not there, or may not be executed.
    PROGRAM_MISSING = "ProgramMissing"
    PORT_TAKEN = "PortTaken"
    #: reconcile ended it, for it took far more memory than it was given.
    KILLED_BY_US = "KilledByUs"
    #: The kernel ended it for want of memory.
    KILLED_BY_KERNEL = "KilledByKernel"
    #: Somebody else ended it by a signal.
    KILLED = "Killed"
    #: It was ready, and answered nobody any more.
    HUNG = "Hung"
    #: It showed no sign of life for too long while it loaded.
    LOAD_TIMEOUT = "LoadTimeout"
    #: It ended before it was ready as if all were well: a wrapper that does not stay, or a daemon.
    EXITED_EARLY = "ExitedEarly"
    #: Anything else.
    CRASHED = "Crashed"


#: Kinds that no repetition mends: the weights, the program or the settings have to change.
TO_MEND: Final = frozenset({FailureKind.BAD_FILE, FailureKind.BAD_ARGUMENT, FailureKind.PROGRAM_MISSING})
#: Kinds after which a launch is not tried again with the same memory.
STARVED: Final = frozenset(
    {FailureKind.OUT_OF_MEMORY, FailureKind.KILLED_BY_KERNEL, FailureKind.KILLED_BY_US}
)
#: Signals by which people and service managers end programs. The others come of what the program itself did.
_SIGHUP, _SIGINT, _SIGQUIT, _SIGKILL, _SIGTERM = 1, 2, 3, 9, 15
_OF_OTHERS: Final = frozenset({_SIGHUP, _SIGINT, _SIGQUIT, _SIGKILL, _SIGTERM})
#: How a shell says that it could not execute a program.
_NOT_EXECUTED: Final = frozenset({126, 127})

_REMEDIES: Final = {
    FailureKind.OUT_OF_MEMORY: "more room is made for it at the next try; fewer tokens of context, fewer slots or a"
    " smaller quantisation need less",
    FailureKind.OVER_LIMIT: "raise `limits.memory`, for no try gets more than that; fewer tokens of context, fewer"
    " slots or a smaller quantisation need less",
    FailureKind.BAD_FILE: "replace the file: it is tried again as soon as it has changed",
    FailureKind.BAD_ARGUMENT: "correct its settings, or update the engine: it is tried again when either has changed",
    FailureKind.PROGRAM_MISSING: "install what it lacks or correct `command:` or `python:`, then `reconcile load NAME`",
    FailureKind.PORT_TAKEN: "another port is tried; if it has a `port:` of its own, end the program that holds it",
    FailureKind.KILLED_BY_US: "it is given more memory at the next try; state what it really takes as `memory:`",
    FailureKind.KILLED_BY_KERNEL: "it is given more memory at the next try; raise `machine.reserve` if other programs"
    " take what it needs",
    FailureKind.KILLED: "nothing is wrong with it; find out who ended it",
    FailureKind.HUNG: "`reconcile logs NAME` shows what it did last",
    FailureKind.LOAD_TIMEOUT: "raise `timeouts.load` if it needs longer; `reconcile logs NAME` shows how far it came",
    FailureKind.EXITED_EARLY: "keep the server in the foreground: end a wrapper with `exec`, and start no daemon",
    FailureKind.CRASHED: "`reconcile logs NAME` shows what it said last",
}


class Starved(StrEnum):
    """Whether the kernel ended a process for want of memory, from its counters."""

    NO = "no"
    #: A counter grew that also counts the processes of others.
    PROBABLY = "probably"
    YES = "yes"
    #: There are no counters.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended that nobody asked to; all None = its exit status is unknown."""

    code: int | None = None
    signal: int | None = None
    #: What its last words were found to mean.
    said: FailureKind | None = None
    #: It had been ready.
    ready: bool = False
    #: The kernel ended a process for want of memory in the moments before.
    starved: bool = False


def kind_of(ending: Ending) -> FailureKind:
    """Return why a process ended. What a signal tells goes before its words: they were written for another reason."""
    number = ending.signal
    if number is None and ending.code is not None and 128 < ending.code < 160:
        number = ending.code - 128  # as a shell that waited for it says so
    if number == _SIGKILL and ending.starved:
        return FailureKind.KILLED_BY_KERNEL
    if number in _OF_OTHERS:
        return FailureKind.KILLED
    if ending.said is not None:
        return ending.said
    if ending.code in _NOT_EXECUTED:
        return FailureKind.PROGRAM_MISSING
    if ending.code == 0 and not ending.ready:
        return FailureKind.EXITED_EARLY
    return FailureKind.CRASHED


def wait(kind: FailureKind, failures: int) -> float:
    """Return the seconds until the next try after so many failures in a row, the last of which was of this kind."""
    if kind in TO_MEND:
        return min(GIVEN_UP_SECONDS, MENDING_FIRST * 2.0 ** min(failures - 1, 30))
    if failures >= _tries(kind):
        return GIVEN_UP_SECONDS
    if kind is FailureKind.PORT_TAKEN and failures == 1:
        return 0.0  # another port is as good; should that be taken too, something else is wrong
    return min(BACKOFF_CAP, BACKOFF_FIRST * 2.0 ** min(failures - 1, 30))


def given_up(kind: FailureKind, failures: int) -> bool:
    """Whether requests do not wait for the next try: by itself nothing is going to be better soon."""
    return failures > 0 and (kind in TO_MEND or failures >= _tries(kind))


def _tries(kind: FailureKind) -> int:
    """Return how many failures in a row, the last of which was of this kind, give a model up."""
    return LIMITED_TRIES if kind is FailureKind.OVER_LIMIT else GIVE_UP_AFTER


def remedy(kind: FailureKind, model: str) -> str:
    """Return what helps, as a piece of a sentence."""
    return _REMEDIES[kind].replace("NAME", model)


def more(kind: FailureKind, had: int) -> int:
    """Return the bytes that a launch is charged next time which failed with `had`; 0 = that does not matter.

    Of one that passed its own limit `had` is that limit: it takes as much again, and can never hold more.
    """
    if kind is FailureKind.OVER_LIMIT:
        return had
    if kind not in STARVED or had <= 0:
        return 0
    return had + max(RAISE_LEAST, int(had * RAISE_SHARE))


def given_up_text(kind: FailureKind, failures: int, retry_in: float) -> str:
    """Return when a model that was given up is tried again, to follow on how often it failed."""
    if kind in TO_MEND:
        changes = "not tried again before its weights, its program or its settings change"
    else:
        changes = (
            f"given up after {times(failures)} in a row until its weights, its program or its settings change"
        )
    return f"{changes}, or somebody asks by `reconcile load`; one more look in {span(retry_in)}"
