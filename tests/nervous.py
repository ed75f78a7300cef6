"""A manager that suspects models to hang soon, and what it found out."""

import sys
from dataclasses import dataclass
from pathlib import Path

from manager import Manager

PROGRAM = Path(__file__).with_name("nervous_manager.py")
_FOUND = ("it may hang", "it does not hang", "model hangs")


@dataclass
class Nervous(Manager):
    """A manager that loses patience after $SILENCE seconds."""

    def command(self, *options: str) -> list[str]:
        """Return the command line that runs the loop."""
        return [sys.executable, str(PROGRAM), *super().command(*options)[1:]]


def causes(manager: Manager, model: str) -> list[str]:
    """Return what was found out about a model, in order."""
    found = [line for line in manager.log() if line.get("event") in _FOUND and line["model"] == model]
    return [str(line.get("cause", line["event"])) for line in found]
