"""The manifest's keys: types, units and defaults. Whatever is not listed here is refused.

Defaults are written as in a manifest, so that the JSON Schema shows them that way.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from reconciler.manifest import engine_fields as e
from reconciler.manifest import fields as f
from reconciler.manifest import gateway_fields as g
from reconciler.manifest.engine_parts import (
    AdapterPart,
    BatchPart,
    DevicePart,
    LimitsPart,
    RestartPart,
    StatePart,
)
from reconciler.manifest.gateway_part import Gateway
from reconciler.manifest.machine_part import Machine
from reconciler.manifest.parts import Part, written
from reconciler.manifest.policy_fields import LivenessField, PerHour, PolicyField, PrewarmField
from reconciler.manifest.virtual_part import VirtualModel

API_VERSION: Final = "reconciler/v1"
DEFAULT_ENGINE: Final = "llama.cpp"


class Context(Part):
    """How long a request may be, and how many are served side by side. Most of it restarts the model."""

    max_tokens: f.Count | None = Field(
        default=None,
        description="Tokens one request may use, prompt and answer together. Default: what the model was trained for.",
    )
    slots: f.Count = Field(
        default=1, description="Requests served side by side, each with `max_tokens` of context."
    )
    cache_type: f.Text = written(
        "f16", description="Type of the cached keys and values, for example f16 or q8_0."
    )
    bytes_per_token: f.CountOrZero | None = Field(
        default=None,
        description="Bytes one token of context takes, for the memory estimate, where the engine cannot tell. "
        "Changing it restarts nothing.",
    )
    overflow: g.OverflowField = written(
        "reject",
        description="What happens to a prompt that leaves no room for its answer: it is refused (reject), the oldest "
        "turns are left out (trim), or put into a few sentences by the `summarizer` (summarize). Applies at once.",
    )
    summarizer: f.Text | None = Field(
        default=None,
        description="The chat model, by name or alias, that summarises for `overflow: summarize`. Applies at once.",
    )


class ModelMemory(Part):
    """What the model takes of the memory."""

    steady: f.SizeOrAuto = written(
        "auto",
        description="Bytes held once it is loaded (8GiB, 512MiB), or `auto`: ask the engine. What is measured counts "
        "where it is more. Applies at once.",
    )
    peak: f.SizeOrAuto = written(
        "auto",
        description="Bytes needed while it loads, or `auto`: as steady, or what the engine says. Applies at once.",
    )
    mode: f.ModeField = written(
        "auto",
        description="How the weights come into memory: mapped (`mmap`), mapped and locked (`mlock`), read (`none`), or "
        "what the engine prefers (`auto`). A change restarts the model.",
    )
    limit: e.SizeOrNone = written(
        "none",
        description="Bytes that PyTorch's allocator may hold (on the GPU of a Mac; in a Python worker on CUDA), or "
        "`none`. A change restarts the model.",
    )


class Queue(Part):
    """How many requests may wait for the model, and how long. Applies at once."""

    max: f.Count = Field(
        default=64, description="Requests that may wait at the same time; further ones are refused (429)."
    )
    timeout: f.Duration = written(
        "2m", description="Seconds, or a duration, a request waits at most (then 503)."
    )


class Timeouts(Part):
    """Deadlines, in seconds or as durations (30s, 5m). Apply at once."""

    load: f.Duration = written(
        "2m", description="From the start of the process until it answers; then it is given up."
    )
    first_byte: f.Duration = written(
        "10m", description="From sending a request to the engine until its first byte."
    )
    chunk: f.TimeLimit = written(
        "never", description="Between two pieces of an answer; `never` = as long as it takes."
    )
    request: f.TimeLimit = written(
        "never", description="For a whole request at the engine; `never` = as long as it takes."
    )
    drain: f.Patience = written(
        "2m",
        description="For running requests to end before the model is stopped; then they are cut. `never` = wait.",
    )
    stop: f.DurationOrZero = written("10s", description="From asking the process to stop until it is killed.")


class Shared(Part):
    """Settings a model may have, or take from `defaults`."""

    role: f.RoleField = written("chat", description="What the model is for. A change restarts it.")
    priority: f.Priority = written(
        "medium",
        description="Who keeps memory: critical (1000), high (750), medium (500), low (250), batch (0), or a whole "
        "number. A lower one never displaces a higher one. Applies at once.",
    )
    residency: f.ResidencyField = written(
        "on_demand",
        description="pinned: loaded at start, never displaced. warm: loaded whenever there is room. on_demand: "
        "loaded by the first request. transient: unloaded right after use. Applies at once.",
    )
    context: Context = Field(default_factory=Context, description="Length and number of requests.")
    memory: ModelMemory = Field(
        default_factory=ModelMemory, description="What the model takes of the memory."
    )
    idle_ttl: f.IdleTime = written(
        "never",
        description="Seconds, or a duration, without a request after which the model is unloaded; or `never`. "
        "Counts from the end of the last request. Applies at once.",
    )
    min_resident: f.DurationOrZero = written(
        "0s",
        description="Seconds, or a duration, a freshly loaded model is safe from being displaced. Applies at once.",
    )
    cooldown: f.DurationOrZero = written(
        "0s",
        description="Seconds, or a duration, that a model is safe which was displaced before and is loaded again. It "
        "makes others wait: docs/scheduling.md has figures. Applies at once.",
    )
    may_preempt: f.PreemptField = written(
        "equal",
        description="Whom it may displace: nobody (none), lower priorities (lower), or its equals too (equal). "
        "Applies at once.",
    )
    reload_after: f.DurationOrZero = written(
        "0s",
        description="Seconds, or a duration, after an unload during which requests wait in line instead of starting a "
        "load at once. Applies at once.",
    )
    concurrency: g.Concurrency = written(
        "auto",
        description="Requests at the engine at once; further ones wait. `auto` = as the engine suggests. "
        "Applies at once.",
    )
    gate: g.Gates = written(
        "auto",
        description="The gate, or gates, that its requests pass: names of `gateway.gates`, `none`, or `auto` for what "
        "size and role say. Applies at once.",
    )
    queue: Queue = Field(default_factory=Queue, description="How requests wait for the model.")
    timeouts: Timeouts = Field(default_factory=Timeouts, description="Deadlines.")
    device: DevicePart = Field(default_factory=DevicePart, description="Where the model computes.")
    limits: LimitsPart = Field(default_factory=LimitsPart, description="What its processes may take at most.")
    batch: BatchPart = Field(
        default_factory=BatchPart, description="How a Python worker puts small requests together."
    )
    state: StatePart = Field(
        default_factory=StatePart, description="What is kept of its state while it is not in memory."
    )
    sleep: e.SleepField = written(
        "off",
        description="What an eviction leaves of it, where its engine can give memory back without ending: nothing "
        "(off), the process and what makes waking fast (light), the process alone (deep). A change restarts it.",
    )
    liveness: LivenessField = written(
        "auto",
        description="Whether it is asked, once it may hang, by a small request of reconcile's own, and restarted if it "
        "does not answer (auto), or only watched (off). Applies at once.",
    )
    restart: RestartPart = Field(
        default_factory=RestartPart, description="When it is replaced by a fresh process, once it is idle."
    )
    python: f.PathText | None = Field(
        default=None,
        description="The virtual environment of a Python engine: its folder, or its interpreter, relative to this "
        "file. Default: the one reconcile runs in, and PATH. A change restarts the model.",
    )
    env: dict[f.EnvName, str] = Field(
        default_factory=dict,
        repr=False,
        description="Environment variables of the process, text to text; `${port}` is filled in. A change restarts it.",
    )
    args: f.Texts = Field(
        default=(),
        repr=False,
        description="Further arguments, each a text (quote numbers); `${port}` is filled in. A change restarts it.",
    )
    cwd: f.PathText | None = Field(
        default=None,
        description="Working directory of the process, relative to this file. Default: this file's directory. "
        "A change restarts it.",
    )
    health: Annotated[str, Field(pattern=r"^/")] = written(
        "/health",
        description="Path that answers 200 when the server of engine `command` is ready. A change restarts it.",
    )


class Defaults(Shared):
    """Settings for all models that do not state them."""


class Model(Shared):
    """One model server."""

    engine: f.Text = Field(
        DEFAULT_ENGINE,
        description="What serves the model: `llama.cpp`, `python` for a class of yours, `command` for any program that "
        "serves HTTP, or another of the engines in docs/engines.md. A change restarts it.",
    )
    command: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None,
        repr=False,
        description="The program and its arguments: a list, or one text that is split as a shell would, without any "
        "expansion. `${port}` is filled in. A program path with a slash is relative to this file. "
        "A change restarts it.",
    )
    weights: f.PathText | None = Field(
        default=None, description="The model file, relative to this file. A change restarts the model."
    )
    entry: e.Entry | None = Field(
        default=None,
        description="The class that engine `python` serves, as package.module:Class; `cwd` is searched first. "
        "A change restarts the model.",
    )
    projector: f.PathText | None = Field(
        default=None,
        description="The file that lets a model see or hear (`mmproj`), relative to this file. A change restarts it.",
    )
    adapters: tuple[AdapterPart, ...] = Field(
        default=(),
        strict=False,
        description="Low-rank adapters (LoRA) on top of the weights. A change restarts the model.",
    )
    draft: f.PathText | None = Field(
        default=None,
        description="The weights of a small model that guesses ahead (speculative decoding), relative to this file. "
        "A change restarts the model.",
    )
    aliases: f.Texts = Field(default=(), description="Further names clients may use. Applies at once.")
    port: f.Port | None = Field(
        default=None,
        description="A fixed port. Default: one of `machine.ports`. A change restarts the model.",
    )


class Document(Part):
    """A manifest: the models of one machine, and what they may use together."""

    api_version: Literal["reconciler/v1"] = Field(
        alias="apiVersion", description="The version of this format: reconciler/v1."
    )
    machine: Machine = Field(default_factory=Machine, description="What models may use of this machine.")
    gateway: Gateway = Field(default_factory=Gateway, description="The one address clients use.")
    policy: PolicyField = written(
        "cost",
        description="Who gives way among models that may: what costs least to load again, by the chance that it is "
        "used soon (cost), or what was not used for the longest time (lru). Applies at once.",
    )
    prewarm: PrewarmField = written(
        "free",
        description="Whether models are loaded before anybody asks for them: never (off), only into free memory "
        "(free), or also in place of models less likely to be used (full). Applies at once.",
    )
    prewarm_per_hour: PerHour = Field(
        default=20,
        description="Models loaded before anybody asks, in an hour at most; 0 = as `prewarm: off`. Applies at once.",
    )
    defaults: Defaults = Field(
        default_factory=Defaults, description="Settings for all models that do not state them."
    )
    models: dict[str, Model] = Field(
        description="The models by name. A name is what clients put into `model`: at most 128 characters; slashes, "
        "colons and letters of any script are fine. `{}` = no model at all."
    )
    virtual: dict[str, VirtualModel] = Field(
        default_factory=dict,
        description="Names behind which several models stand; rules say which one answers. Apply at once.",
    )
