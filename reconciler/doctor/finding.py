"""One finding: how bad, about what, what it is, and what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    #: Worth knowing; nothing need be done.
    NOTE = "note"
    #: Something will be slow, or fail under load.
    WARNING = "warning"
    #: Something will not work.
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing seen. `advice` is empty where nothing need be done."""

    level: Level
    #: A word or two: memory, swap, ports ...
    topic: str
    what: str
    advice: str = ""


def ok(topic: str, what: str) -> Finding:
    """Return a finding that is as it should be."""
    return Finding(Level.OK, topic, what)


def note(topic: str, what: str, advice: str = "") -> Finding:
    """Return a finding worth knowing."""
    return Finding(Level.NOTE, topic, what, advice)


def warning(topic: str, what: str, advice: str) -> Finding:
    """Return a finding that will hurt under load."""
    return Finding(Level.WARNING, topic, what, advice)


def error(topic: str, what: str, advice: str) -> Finding:
    """Return a finding that keeps something from working."""
    return Finding(Level.ERROR, topic, what, advice)


def cannot_tell(topic: str, why: str) -> Finding:
    """Return the finding that a probe has nothing to read: unknown is said, never taken for good."""
    return Finding(Level.NOTE, topic, f"cannot tell: {why}")
