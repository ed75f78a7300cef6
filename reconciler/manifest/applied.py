"""A manifest that passed validation, in the shapes the rest of the program uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Manifest
from reconciler.leases import QueueLimits


class Scope(StrEnum):
    """What an API key allows."""

    #: Requests to models.
    INFER = "infer"
    #: Status, plan, budget, lists.
    READ = "read"
    #: Load, evict, stop, leases.
    ADMIN = "admin"


EVERYTHING: Final = frozenset(Scope)


class OnExit(StrEnum):
    """What becomes of the models when the manager ends."""

    STOP = "stop"
    #: They run on, and the next manager takes them over.
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key, what it allows, and how it is called in logs. The key itself is shown nowhere."""

    key: str = field(repr=False)
    name: str = ""
    scopes: frozenset[Scope] = EVERYTHING
    #: The urgency of its requests where several wait; None = that of the model.
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """How many models may compute at once among those that pass it."""

    limit: int
    #: Bytes of weights from which a model passes it unless it says otherwise; None = only those that name it.
    above: int | None = None
    #: Roles that pass it unless the model says otherwise.
    roles: frozenset[Role] = frozenset()


GENERATING: Final = frozenset({Role.CHAT, Role.COMPLETION, Role.VISION})
HEAVY_BYTES: Final = 30_000_000_000
STANDARD_GATES: Final[Mapping[str, Gate]] = {
    "heavy": Gate(limit=1, above=HEAVY_BYTES, roles=GENERATING),
    "llm": Gate(limit=2, roles=GENERATING),
}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Where clients connect and who may."""

    host: str = "127.0.0.1"
    port: int = 8080
    #: Of these a client must show one (`Authorization: Bearer`); empty = no key asked, loopback only.
    api_keys: tuple[ApiKey, ...] = ()
    #: Further `Host` names accepted besides the loopback ones.
    hosts: tuple[str, ...] = ()
    #: Browser origins that may call (`Origin`); the gateway's own is always allowed.
    origins: tuple[str, ...] = ()
    #: Bytes of a request body at most.
    max_body: int = 64 * 1024 * 1024
    #: Connections of clients at most; further ones are told so and closed.
    max_connections: int = 4096
    #: Whether waiting streams get comments that say what they wait for (a client may ask for them itself).
    comments: bool = False
    gates: Mapping[str, Gate] = field(default_factory=lambda: STANDARD_GATES)
    #: Environment variables that hold API keys: no child process may inherit them.
    key_variables: tuple[str, ...] = ()


class Probing(StrEnum):
    """What becomes of a model that is ready and may hang."""

    #: It is asked, and restarted if it does not answer.
    AUTO = "auto"
    #: It is only watched.
    OFF = "off"


class Overflow(StrEnum):
    """What happens to a prompt that is longer than the model's context."""

    REJECT = "reject"
    #: The oldest turns are left out.
    TRIM = "trim"
    #: The oldest turns are put into a few sentences by another model.
    SUMMARIZE = "summarize"


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """How long a request may be."""

    #: Prompt and answer together; None = what the engine was started with, if that is known.
    tokens: int | None = None
    overflow: Overflow = Overflow.REJECT
    #: The model that summarises (a name, not an alias).
    summarizer: str | None = None


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How one model's requests are treated; durations in seconds."""

    queue: QueueLimits = field(default_factory=QueueLimits)
    #: Until the engine's first byte after the request was sent to it.
    first_byte: float = 600.0
    #: Between two pieces of an answer; None = as long as it takes.
    chunk: float | None = None
    #: For the whole request once it is sent to the engine; None = as long as it takes.
    request: float | None = None
    #: Requests at the engine at once; None = as the engine suggests.
    concurrency: int | None = None
    #: Gates it passes; None = by size and role.
    gates: tuple[str, ...] | None = None
    priority: int = 500
    context: ContextLimits = field(default_factory=ContextLimits)
    role: Role = Role.CHAT
    #: Whether its server is asked when it may hang, and restarted when it does.
    liveness: bool = True


class Strategy(StrEnum):
    """Which of several models answers."""

    #: The first that can be loaded at all.
    FIRST = "first"
    #: The first that is in memory and takes requests; else the first.
    READY = "ready"
    #: The first that is in memory or fits into what is free; else the first.
    FITS = "fits"


@dataclass(frozen=True, slots=True)
class When:
    """What a request must be like; all that is said must hold. Nothing said = every request."""

    role: Role | None = None
    image: bool | None = None
    code: bool | None = None
    tools: bool | None = None
    #: Tokens of the prompt, by the stated estimate: at least, and at most.
    min_tokens: int | None = None
    max_tokens: int | None = None
    #: Name (lower case) and value of a header; the value None = it only has to be there.
    header: tuple[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """When this holds, one of these models answers, the first by preference."""

    when: When
    use: tuple[str, ...]
    strategy: Strategy = Strategy.FIRST


@dataclass(frozen=True, slots=True)
class Virtual:
    """A name behind which several models stand; the first rule that holds decides. The last one holds always."""

    name: str
    rules: tuple[Rule, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """The models behind it, each once, in the order of its rules."""
        return tuple(dict.fromkeys(model for rule in self.rules for model in rule.use))


@dataclass(frozen=True, slots=True)
class StateSettings:
    """How the state of one model is kept over an unload."""

    #: Addresses of the user's for saving and for restoring: a path on the model's server, or a whole URL. None = the
    #: engine knows how.
    save: str | None = None
    load: str | None = None
    #: Seconds each of them may take.
    timeout: float = 10.0
    #: Bytes on disk at most; None = what all may have together.
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where the manifest came from."""

    path: str
    files: tuple[str, ...] = ()
    #: Commit of the repository the files lie in (short), None outside one; dirty = files differ from that commit.
    git_commit: str | None = None
    git_dirty: bool = False
    #: Further files whose content counts, absolute: the file of API keys.
    also_read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """One validated manifest. `manifest.generation` is 0 here: the loop counts."""

    manifest: Manifest
    launches: Mapping[str, LaunchSpec]
    #: Every id a client may use (names and aliases) -> model name.
    routes: Mapping[str, str]
    limits: Mapping[str, RequestLimits]
    gateway: GatewaySettings
    #: First and last port for models, inclusive.
    ports: tuple[int, int]
    #: Digest of the normalised content: equal = nothing a reader would call a change.
    digest: str
    source: Source
    #: Names behind which several models stand. Not in `routes`.
    virtual: Mapping[str, Virtual] = field(default_factory=dict)
    #: Things worth saying that are no errors.
    warnings: tuple[str, ...] = ()
    #: Models whose state is kept while they are not in memory.
    states: Mapping[str, StateSettings] = field(default_factory=dict)
    #: Bytes that all saved states may take together.
    state_disk: int = 10 << 30
    on_exit: OnExit = OnExit.STOP
