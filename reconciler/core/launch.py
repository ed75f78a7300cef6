"""What starts a model: every setting that, when changed, means the process must be replaced."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a model is for; the gateway routes by it and engines choose flags by it."""

    CHAT = "chat"
    COMPLETION = "completion"
    VISION = "vision"
    EMBEDDING = "embedding"
    RERANK = "rerank"
    ASR = "asr"
    TTS = "tts"
    IMAGE = "image"
    CLASSIFY = "classify"


class LoadMode(StrEnum):
    """How weights come into memory (the names are llama.cpp's)."""

    AUTO = "auto"
    NONE = "none"
    MMAP = "mmap"
    MLOCK = "mlock"


@dataclass(frozen=True, slots=True)
class Device:
    """Where a model computes, and how much of the machine's cores it may have."""

    #: GPUs by number or name, as the driver counts them; None = all there are, () = none: the CPU.
    gpus: tuple[str, ...] | None = None
    #: CPUs it may run on, sorted; () = all.
    cpus: tuple[int, ...] = ()
    #: Added to the niceness of its processes, 0 to 19.
    nice: int = 0
    #: Threads it computes with; None = as the engine's adapter thinks best.
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model's processes may take at most; None = as the system says."""

    #: Bytes of memory all of them may hold together, the cached pages of mapped files included.
    memory: int | None = None
    #: Whom the kernel ends first when memory runs out: -1000 never, 1000 this one.
    oom_score_adj: int | None = None
    #: Files each of them may have open; bytes of a core dump, and of address space (-1 = any).
    nofile: int | None = None
    core: int | None = None
    address_space: int | None = None


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """A low-rank adapter on top of the weights. The path is absolute."""

    path: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Batching:
    """How a worker puts requests together: at most `most` items, after waiting at most `wait` seconds for others."""

    most: int = 32
    wait: float = 0.0


class Sleep(StrEnum):
    """What an eviction leaves of a model whose engine can give memory back without ending."""

    #: Nothing: the process is stopped.
    OFF = "off"
    #: The process, and what makes waking fast (weights in host memory, where the engine has a place for them).
    LIGHT = "light"
    #: The process alone.
    DEEP = "deep"


#: Fields that only help to estimate: a running process need not be replaced for them.
_NO_RESTART = frozenset({"context_bytes_per_token", "cwd_matters"})


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything an engine needs to start one model. Paths are absolute; nothing here is a policy."""

    model: str
    engine: str
    #: argv of the `command` engine, or the server binary (one item) another engine should use; empty = its default.
    command: tuple[str, ...] = field(default=(), repr=False)
    #: Absolute path of the weights; None for engines that need none.
    weights: str | None = None
    role: Role = Role.CHAT
    #: Tokens one request may use, prompt and answer together; None = the model's own length.
    context_tokens: int | None = None
    #: Requests served side by side, each with `context_tokens`.
    slots: int = 1
    cache_type: str = "f16"
    #: Bytes one token of context takes, where the manifest states it; an estimate, so it restarts nothing.
    context_bytes_per_token: int | None = None
    load_mode: LoadMode = LoadMode.AUTO
    #: Working directory of the process, absolute.
    cwd: str = "/"
    #: Whether another working directory makes it another launch.
    cwd_matters: bool = True
    #: Neither of these is shown by `repr`: they may hold secrets.
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    #: A fixed port, or None for one from the machine's range.
    port: int | None = None
    #: Path that answers 200 when a `command` server is ready.
    health_path: str = "/health"
    #: `package.module:Class` that the Python worker serves.
    entry: str | None = None
    #: The interpreter, or the folder of the virtual environment, that Python engines run in; absolute. None = ours.
    python: str | None = None
    #: Further files of the model, absolute: the projector of a vision model, adapters, a draft model.
    projector: str | None = None
    adapters: tuple[LoraAdapter, ...] = ()
    draft: str | None = None
    device: Device = Device()
    #: Bytes the framework's own allocator may hold, where it can be told; None = as it likes.
    allocator_limit: int | None = None
    batch: Batching = Batching()
    #: Whether its state is to be saved before it is stopped: some servers must be started for it.
    saves_state: bool = False
    sleep: Sleep = Sleep.OFF
    limits: Limits = Limits()


_LATER: Final = (
    "entry",
    "python",
    "projector",
    "adapters",
    "draft",
    "device",
    "allocator_limit",
    "batch",
    "saves_state",
    "sleep",
    "limits",
)
_BARE: Final = LaunchSpec("", "")


def launch_digest(spec: LaunchSpec) -> str:
    """Return 16 hex digits that change exactly when the process must be replaced.

    >>> launch_digest(LaunchSpec("a", "command")) == launch_digest(LaunchSpec("a", "command", slots=2))
    False
    """
    left_out = _NO_RESTART if spec.cwd_matters else _NO_RESTART | {"cwd"}
    settings = {name: value for name, value in asdict(spec).items() if name not in left_out}
    # A setting that earlier versions did not have counts from when it is used: an update replaces no process.
    for name in _LATER:
        if getattr(spec, name) == getattr(_BARE, name):
            del settings[name]
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
