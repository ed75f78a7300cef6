"""A manifest that passed validation, in the shapes the rest of the program uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Manifest
from reconciler.leases import QueueLimits


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Where clients connect and who may."""

    host: str = "127.0.0.1"
    port: int = 8080
    #: Keys of which a client must show one (`Authorization: Bearer`); empty = no key asked, loopback only.
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    #: Further `Host` names accepted besides the loopback ones.
    hosts: tuple[str, ...] = ()
    #: Browser origins that may call (`Origin`); the gateway's own is always allowed.
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How long one model's requests may take, in seconds, and how many may wait."""

    queue: QueueLimits = field(default_factory=QueueLimits)
    #: Until the engine's first byte after the request was sent to it.
    first_byte: float = 600.0
    #: For the whole request once it is sent to the engine; None = as long as it takes.
    request: float | None = None


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
    #: Things worth saying that are no errors.
    warnings: tuple[str, ...] = ()
