"""Kinds of failures, with the remedies that the program itself gives."""

from typing import Final

from reconciler.core.crashes import FailureKind, remedy
from reconciler.glossary.words import Kind, Word

_MEANS: Final = {
    FailureKind.OUT_OF_MEMORY: "The model says that it got too little memory, on the host or on a GPU.",
    FailureKind.OVER_LIMIT: "It was ended by its own `limits.memory`: it may never have more than that.",
    FailureKind.BAD_FILE: "Its weights, or another file of the model, are damaged, missing or unknown to its engine.",
    FailureKind.BAD_ARGUMENT: "Its engine does not take one of its arguments, or not together with another.",
    FailureKind.PROGRAM_MISSING: "The program, its interpreter or a package that it needs is not there.",
    FailureKind.PORT_TAKEN: "Somebody else listens on its port.",
    FailureKind.KILLED_BY_US: "It took far more memory than it was given, and was ended before the machine ran out.",
    FailureKind.KILLED_BY_KERNEL: "The kernel ended it for want of memory.",
    FailureKind.KILLED: "Somebody ended it by a signal; neither reconcile nor, as far as can be told, the kernel.",
    FailureKind.HUNG: "It was ready, and answered nobody any more.",
    FailureKind.LOAD_TIMEOUT: "It showed no sign of life for `timeouts.load` while it loaded.",
    FailureKind.EXITED_EARLY: "It ended with exit code 0 before it was ready: a wrapper that does not stay, a daemon.",
    FailureKind.CRASHED: "It ended in a way that fits no other kind.",
}


def failures() -> tuple[Word, ...]:
    """Return the kinds of failures."""
    return tuple(
        Word(kind.value, Kind.FAILURE, _MEANS[kind], remedy(kind, "NAME"), "crashes.md#kinds-of-failures")
        for kind in FailureKind
    )
