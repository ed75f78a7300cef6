"""What systemd and launchd have in common, as the verbs see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from reconciler.host.ask import Said, run_program
from reconciler.render.service_shapes import Kind, Phase
from reconciler.service.settings import ServiceError, Settings

#: Seconds that a question to a service manager may take.
ASK_SECONDS: Final = 15.0
#: Seconds on top of what the program may take to start or to end.
SLACK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class State:
    """What the service manager says of the service."""

    state: Phase
    #: Whether it is started by itself, at boot or when the user logs in; None = not known.
    enabled: bool | None = None
    pid: int | None = None
    #: Starts after the first, without anybody asking; None = not known.
    restarts: int | None = None
    #: How the last run ended, in words; None = it has not, or nobody remembers.
    last_exit: str | None = None
    #: What the program says of itself; "" = nothing.
    says: str = ""


class ServiceManager(Protocol):
    """One service under systemd or launchd. What asks or tells blocks, and raises ServiceError."""

    kind: Kind
    name: str
    system: bool
    #: Where the unit lies.
    path: Path
    #: Of the file.
    mode: int

    def text(self, settings: Settings) -> str:
        """Return the unit."""

    def by_hand(self) -> Sequence[str]:
        """Return the commands that put a unit into force once it is saved."""

    def anew(self) -> str:
        """Return the command that restarts the service."""

    def reach(self) -> None:
        """Raise UnreachableError unless the service manager answers."""

    def load(self, settings: Settings, *, changed: bool, start: bool) -> None:
        """Put the file into force, for every start of the machine or log-in; with `start` have it run now."""

    def unload(self, seconds: float) -> None:
        """End the service, which may take so long, and start it no more. Harmless if it is not known."""

    def forget(self) -> None:
        """Notice that the file is gone."""

    def state(self) -> State:
        """Return how the service is."""

    def hints(self) -> Sequence[str]:
        """Return what is worth saying once it is installed, a sentence each."""


def tell(argv: Sequence[str], timeout: float = ASK_SECONDS, *, failed: str) -> Said:
    """Run a command that has to succeed. Raises ServiceError with `failed` and what the command said."""
    said = ask(argv, timeout)
    if said.status != 0:
        raise ServiceError(f"{failed}: {said.complaint}")
    return said


def ask(argv: Sequence[str], timeout: float = ASK_SECONDS) -> Said:
    """Run a command and return what it said, whether it went well or not. Raises ServiceError if it cannot run."""
    try:
        return run_program(argv, timeout)
    except OSError as error:
        raise ServiceError(f"{' '.join(argv)} could not be run: {error}") from error
