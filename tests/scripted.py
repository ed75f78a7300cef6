"""Managers for tests with models of the engine `scripted`, which can sleep and has jobs."""

import sys
from pathlib import Path

from manager import Manager

SCRIPT = Path(__file__).with_name("scripted_manager.py")
#: MiB that a process of Python's own may hold beside what it is told to.
OWN = 40


class ScriptedManager(Manager):
    """A manager that finds the engine of tests/scripted_engines."""

    def command(self, *options: str) -> list[str]:
        """Run the program with one engine more."""
        return [sys.executable, str(SCRIPT), *super().command(*options)[1:]]

    def scripted(self, model: str, *options: str, size: int = 50, **keys: object) -> dict[str, object]:
        """Return the manifest entry of a scripted model of `size` MiB; `options` are its server's."""
        return self.fake(model, *options, size=size, **({"engine": "scripted"} | keys))  # type: ignore[arg-type]

    def sleepy(self, model: str, *options: str, hold: int = 160, **keys: object) -> dict[str, object]:
        """Return the entry of a model that gives `hold` MiB back when it sleeps."""
        words = ("--hold-mib", str(hold), *options)
        return self.scripted(model, *words, size=hold + OWN, **({"sleep": "light"} | keys))


def anonymous(pid: int) -> int:
    """Return the MiB of anonymous memory that a process holds, as the kernel says."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) >> 10
    raise AssertionError(f"{pid} says nothing of its memory")
