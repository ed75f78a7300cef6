"""The one interface all engines share. An engine never starts anything: it says how it would be done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

import httpx

from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec, Limits, Role
from reconciler.core.memory import Said
from reconciler.core.types import Preflight


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start: no shell, `env` is added to a cleaned copy of ours.

    `without` are beginnings of names: such variables of ours are left out of the copy.
    """

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    #: CPUs it may run on; () = all. Inherited by all its threads and processes.
    cpus: tuple[int, ...] = ()
    #: Added to the niceness, 0 to 19.
    nice: int = 0
    #: It locks memory: the limit of locked memory is raised as far as this user may.
    locks: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Finding:
    """A setting this engine cannot work with. `path` names it below the model (`("context", "slots")`)."""

    path: tuple[str, ...]
    message: str
    hint: str = ""
    #: This engine has no use for the setting: an error where the model itself states it. Where `defaults` do, which are
    #: for models of all engines, it is passed over: the launch is made as if nobody had stated it.
    needless: bool = False


class Readiness(Enum):
    """What one probe of a starting server said."""

    #: A real call worked: requests may be sent.
    READY = "ready"
    #: Nothing wrong so far: probe again.
    LOADING = "loading"
    #: It will never be ready: stop it.
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Probe:
    """Result of one readiness probe; `detail` is for people."""

    readiness: Readiness
    detail: str = ""


class EngineError(Exception):
    """A running server did not do what it was asked; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server that is asked something. `key` is the one it asks for; it is shown nowhere."""

    spec: LaunchSpec
    base_url: str
    client: httpx.AsyncClient
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Saved:
    """What a server wrote of its state. `files` are names inside the folder it was given, sorted."""

    files: tuple[str, ...]
    #: Tokens of context in it; None = it does not count in tokens.
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of sending a part of what was restored once more: of `sent` tokens `used` were not computed anew."""

    used: int
    sent: int


class Saver(Protocol):
    """Keeps what a model knows of its conversations over an unload."""

    def refuses(self, spec: LaunchSpec) -> str | None:
        """Return why a state cannot be kept with these settings, in a sentence, or None. Reads files."""
        ...

    def setup(self, spec: LaunchSpec) -> str:
        """Return all that a saved state depends on, besides weights and engine build: equal = it may be restored."""
        ...

    def other_build(self, was: str, now: str) -> str:
        """Return what is another since a state was saved, in a sentence: `was` and `now` are builds of the engine."""
        ...

    async def save(self, server: Server, folder: Path) -> Saved | None:
        """Have the state written into `folder`; None = there is nothing to keep. Raises EngineError."""
        ...

    async def restore(self, server: Server, folder: Path, saved: Saved) -> None:
        """Have the state in `folder` read by a server that has just become ready. Raises EngineError."""
        ...

    async def reused(self, server: Server) -> Trial | None:
        """Try whether what was restored is used; None = it cannot be told, 0 `used` = it is not. Raises EngineError.

        Servers have said that a state was restored, and computed everything anew.
        """
        ...


class Sleeper(Protocol):
    """Gives memory back without ending, and takes it again. What it really freed is measured by the caller.

    So is what it took again when it is probed after its waking, unless `wakes_later`: it is a lie if that is little.
    """

    #: Waking takes nothing: the next request does.
    wakes_later: bool = False

    async def sleep(self, server: Server) -> None:
        """Have the memory given back that `server.spec.sleep` is about. Raises EngineError."""
        ...

    async def wake(self, server: Server) -> None:
        """Have it take its memory again; it is probed afterwards. Raises EngineError."""
        ...


class Engine(Protocol):
    """How one kind of model server is started, recognised as ready, and read."""

    #: The value of `engine:` in a manifest.
    name: str
    #: What its servers can be.
    roles: frozenset[Role]
    #: Whether it computes with PyTorch; None = that is not known.
    torch: bool | None
    #: Whether its server is told `memory.limit` itself, whatever it computes on.
    takes_limit: bool
    #: Fields of a request's body that are refused: by them a client would have it load files of the client's choice.
    withheld: frozenset[str]
    #: Whether it loads whatever model a request names: what is passed on to it unread needs the scope admin.
    swaps: bool

    def check(self, spec: LaunchSpec) -> tuple[Finding, ...]:
        """Return what is wrong with the settings themselves; reads no file."""
        ...

    def preflight(self, spec: LaunchSpec) -> Preflight:
        """Say whether it could start now and how many bytes it would take. Reads files: call it in a worker thread."""
        ...

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return the first words of the command line, or None if the program is not there. Reads the file system."""
        ...

    def foreseen(self, spec: LaunchSpec) -> Preflight:
        """Return the part of `preflight` that the files alone tell: the size, whether or not its program is here."""
        ...

    def command(self, spec: LaunchSpec, port: int, saves: str | None = None) -> Command:
        """Return the process to start so that it serves on 127.0.0.1:`port`.

        `saves` is the folder for its saved states, absolute, where `spec.saves_state` asks for them.
        """
        ...

    def sources(self, spec: LaunchSpec) -> tuple[str, ...]:
        """Return the files besides its weights that a process is made of and a user edits: an edit replaces it.

        Reads the file system.
        """
        ...

    def version(self, spec: LaunchSpec) -> str | None:
        """Return the engine's version as far as files tell it, or None. Reads files; starts nothing."""
        ...

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """Ask once whether it serves: the health address, then one tiny real call. Never raises for a dead server."""
        ...

    async def prove(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """Ask a server that has been ready whether it still works, by a small call such as its clients make.

        READY is proof, FAILED a wrong answer, LOADING none. Never raises for a dead server.
        """
        ...

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the name the server expects in `model`, or None to pass the client's name on."""
        ...

    def api_key(self, spec: LaunchSpec) -> str | None:
        """Return the key the server asks of its clients, or None. May read a file: call it in a worker thread.

        Clients do not know it: the gateway sends it in their place. It is shown nowhere.
        """
        ...

    def serves(self, spec: LaunchSpec) -> frozenset[str] | None:
        """Return the paths of the data API its server answers (`/v1/embeddings`), or None if nobody can tell."""
        ...

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return how many requests make sense at once, or None where the server knows best.

        One more than it computes side by side keeps it from being idle between two.
        """
        ...

    async def count_tokens(
        self,
        spec: LaunchSpec,
        base_url: str,
        path: str,
        body: Mapping[str, object],
        client: httpx.AsyncClient,
    ) -> int | None:
        """Return the prompt tokens of the request `body` to `path`, asked of the running server; None = it cannot tell.

        Never raises for a dead server or a strange answer.
        """
        ...

    def said(self, log: str) -> Said | None:
        """Return what the log of one start says the model really took, or None if it does not say."""
        ...

    def explain(self, log_tail: str, exit_status: int | None) -> str | None:
        """Turn the last log lines and the exit status into one sentence, or None if they say nothing known."""
        ...

    def failure_kind(self, log_tail: str) -> FailureKind | None:
        """Return what kind of failure the last log lines certainly tell of, or None."""
        ...

    def saver(self, spec: LaunchSpec) -> Saver | None:
        """Return how its state is kept over an unload, or None where it cannot be."""
        ...

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """Return how it gives memory back without ending, or None where it cannot."""
        ...

    def has_jobs(self, spec: LaunchSpec) -> bool:
        """Say whether it goes on working after its answer, so that `jobs` has to be asked."""
        ...

    async def jobs(self, server: Server) -> int | None:
        """Return how many jobs it works on or has in line; None = it does not say. Never raises for a dead server."""
        ...
