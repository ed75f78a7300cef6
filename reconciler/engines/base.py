"""The one interface all engines share. An engine never starts anything: it says how it would be done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import httpx

from reconciler.core.launch import LaunchSpec
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


@dataclass(frozen=True, slots=True)
class Finding:
    """A setting this engine cannot work with. `path` names it below the model (`("context", "slots")`)."""

    path: tuple[str, ...]
    message: str
    hint: str = ""


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


class Engine(Protocol):
    """How one kind of model server is started, recognised as ready, and read."""

    #: The value of `engine:` in a manifest.
    name: str

    def check(self, spec: LaunchSpec) -> tuple[Finding, ...]:
        """Return what is wrong with the settings themselves; reads no file."""
        ...

    def preflight(self, spec: LaunchSpec) -> Preflight:
        """Say whether it could start now and how many bytes it would take. Reads files: call it in a worker thread."""
        ...

    def command(self, spec: LaunchSpec, port: int) -> Command:
        """Return the process to start so that it serves on 127.0.0.1:`port`."""
        ...

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """Ask once whether it serves: the health address, then one tiny real call. Never raises for a dead server."""
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
