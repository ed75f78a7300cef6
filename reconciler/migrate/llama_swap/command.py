"""A command line as llama-swap splits it, and which known server it starts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from reconciler.engines.llama import words as llama_words
from reconciler.manifest.tree import Mark, Scalar
from reconciler.manifest.words import SplitError, split
from reconciler.migrate.finding import Kind, Report
from reconciler.migrate.llama_swap.known import SERVERS

#: Programs that start another one, and end with it.
_WRAPPERS: Final = frozenset(
    {
        "arch",
        "caffeinate",
        "chrt",
        "env",
        "ionice",
        "nice",
        "nohup",
        "numactl",
        "prlimit",
        "setsid",
        "stdbuf",
        "taskset",
    }
)
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash"})
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_PYTHON: Final = re.compile(r"python[0-9.]*")
_LLAMA: Final = re.compile(r"llama-server(?:[-.].*)?")


@dataclass(frozen=True, slots=True)
class Split:
    """The words of a command, in order, and where each server begins."""

    words: tuple[str, ...]
    #: Where the program itself stands; the words before it are wrappers.
    at: int = 0
    #: What the program is called where a variable of the environment names it.
    called: str = ""

    @property
    def program(self) -> str:
        """Return the program as it is written."""
        return self.words[self.at]

    @property
    def name(self) -> str:
        """Return the program's name without its folder."""
        return PurePath(self.called or self.program).name.removesuffix(".exe")

    @property
    def args(self) -> tuple[str, ...]:
        """Return what follows the program."""
        return self.words[self.at + 1 :]

    @property
    def python(self) -> bool:
        """Tell whether it is a Python interpreter."""
        return bool(_PYTHON.fullmatch(self.name))

    @property
    def container(self) -> bool:
        """Tell whether it runs a container."""
        return self.name in _CONTAINERS

    @property
    def shell(self) -> bool:
        """Tell whether it is a shell."""
        return self.name in _SHELLS

    @property
    def llama(self) -> bool:
        """Tell whether it is llama.cpp's server, of whatever build."""
        return bool(_LLAMA.fullmatch(self.name))


def split_command(text: str, source: Scalar, key: str, report: Report) -> Split | None:
    """Return the words of an expanded command, or None after noting why it cannot be split."""
    lines = []
    for line in text.split("\n"):
        bare = line.strip()
        if not bare.startswith("#"):
            lines.append(f"{bare[:-1]} " if bare.endswith("\\") else line)
    try:
        words = split("\n".join(lines))
    except SplitError as error:
        mark = Mark(source.mark.file, min(source.mark.line + error.line, source.end[0]), source.mark.col)
        report.add(Kind.ERROR, mark if error.line else source.mark, key, error.message, error.hint)
        return None
    if not words:
        report.add(Kind.ERROR, source.mark, key, "there is no command in it")
        return None
    return _found(Split(tuple(words)))


def _found(command: Split) -> Split:
    """Return the command with the place of its program: behind `env`, `taskset` and their like."""
    if command.name not in _WRAPPERS:
        return command
    for at in range(1, len(command.words)):
        there = replace(command, at=at)
        if there.llama or there.name in SERVERS or there.python or there.container:
            return there
    return command


def value_of(words: Sequence[str], *names: str) -> str | None:
    """Return the value of the last of some flags, `--flag VALUE` or `--flag=VALUE`; None = not there."""
    found = None
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names and equals:
            found = value
        elif word in names and place + 1 < len(words):
            found = words[place + 1]
    return found


def pairs(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the flags of a `llama-server` with their values, as the engine reads them."""
    return llama_words.pairs(words)
