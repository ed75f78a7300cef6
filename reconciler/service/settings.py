"""What a service starts, for whom, and how long its end may take: all that a unit is made of."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

#: Stands near the top of every file that is ours to replace and to remove.
MARKER: Final = "Written by `reconcile service install`"
#: Before what the file was made from, on a line of its own.
RECORD: Final = "settings: "
#: A unit is found again by it; anything more would need escaping in a file name.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class ServiceError(Exception):
    """The service cannot be installed, removed or asked about; the message says why and what to do."""


class UnreachableError(ServiceError):
    """No service manager answers here: a container, WSL without systemd, another system."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One service. All paths are absolute."""

    #: The program with its first arguments: what `reconcile` is, whatever PATH says.
    program: tuple[str, ...]
    manifest: str
    state_dir: str
    #: Seconds that the end may take before the program is killed.
    stop_seconds: int
    #: HOST:PORT in place of the manifest's; None = as the manifest says.
    listen: str | None = None
    #: Variables it gets on top of those the service manager sets.
    env: Mapping[str, str] = field(default_factory=dict)
    #: The user it runs as; None = whose service manager starts it.
    user: str | None = None
    #: The folder for its log where the system keeps none (launchd); "" = it does.
    logs: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command line of the loop."""
        listen = ("--listen", self.listen) if self.listen is not None else ()
        return (*self.program, "-m", "reconciler", self.manifest, "--state-dir", self.state_dir, *listen)

    def record(self) -> str:
        """Return the settings as ASCII on one line, without a hyphen, which comments of XML may not hold twice."""
        return RECORD + json.dumps(asdict(self), sort_keys=True).replace("-", "\\u002d")


def check_name(name: str) -> str:
    """Return the name of a service. Raises ServiceError for one that cannot be a file name everywhere."""
    if not _NAME.fullmatch(name):
        raise ServiceError(
            f"{name!r} is no name for a service: use letters, digits, - and _, a letter or digit first"
        )
    return name


def recorded(text: str) -> Settings | None:
    """Return what a file of ours was made from; None = it is not ours, or of a version with other settings."""
    if MARKER not in text:
        return None
    line = next((part for part in text.splitlines() if RECORD in part), "")
    try:
        start = line.index("{")
        values = json.loads(line[start : line.rindex("}") + 1])
        return Settings(**{**values, "program": tuple(values["program"])})
    except (ValueError, KeyError, TypeError):
        return None


def read(path: Path) -> str | None:
    """Return the text of a unit, or None where there is none. Blocking. Raises OSError."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
