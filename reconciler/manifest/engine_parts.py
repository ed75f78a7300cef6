"""Mappings of a model that say how its process runs, and what becomes of it."""

from pydantic import Field

from reconciler.manifest import engine_fields as e
from reconciler.manifest import fields as f
from reconciler.manifest.parts import Part, written


class DevicePart(Part):
    """Where the model computes. A change restarts it."""

    gpus: e.Gpus = written(
        "auto",
        description="The GPUs it may use, by number: [0], or 0; `none` = it computes on the CPU; `auto` = all.",
    )
    cpus: e.Cpus = written("all", description='The CPUs it may run on: "0-7", a list, or `all`. (Linux)')
    nice: e.Nice = Field(default=0, description="How far it steps back when others want the CPU: 0 to 19.")
    threads: f.Count | None = Field(
        default=None, description="Threads it computes with. Default: the physical cores it may use."
    )


class RlimitsPart(Part):
    """Limits of each process of the model (`ulimit`)."""

    nofile: f.Count | None = Field(
        default=None, description="Files it may have open. Default: as reconcile was started."
    )
    core: e.SizeOrUnlimited | None = Field(
        default=None, description="Bytes of a core dump, 0 for none, or `unlimited`."
    )
    address_space: e.SizeOrUnlimited | None = Field(
        default=None, alias="as", description="Bytes of address space, or `unlimited`."
    )


class LimitsPart(Part):
    """What the model may take at most. A change restarts it; what cannot be set here is refused. (Linux)"""

    memory: e.MemoryOrNone = written(
        "none",
        description="Bytes that its processes may hold together, cached pages of mapped weights included, or `none`. "
        "A control group of its own; who takes more is ended by the kernel.",
    )
    oom_score_adj: e.OomScore | None = Field(
        default=None,
        description="Whom the kernel ends first when memory runs out: -1000 (never this one) to 1000. Default: 800 "
        "while it loads, 300 once it serves.",
    )
    rlimits: RlimitsPart = Field(default_factory=RlimitsPart, description="Limits of each of its processes.")


class BatchPart(Part):
    """How a Python worker puts small requests together. A change restarts the model."""

    max: f.Count = Field(default=32, description="Items that are worked on at once, at most.")
    wait: f.DurationOrZero = written(
        "0s", description="Seconds, or a duration, that the first item waits for others; 0 = for none."
    )


class StatePart(Part):
    """What is kept of a model's state while it is not in memory."""

    save: e.Save = Field(
        default=False,
        description="Whether its state is saved before it is unloaded and restored after it is loaded (true), or the "
        'address that its own server saves it at: a path, which is sent {"path": FOLDER}. A change restarts it.',
    )
    load: e.Hook | None = Field(
        default=None, description="The address that its own server restores a state at. Applies at once."
    )
    timeout: f.Duration = written(
        "10s",
        description="Seconds, or a duration, that saving, and restoring, may take; then the model goes, or comes, "
        "without it. Applies at once.",
    )
    max: e.SizeOrNone = written(
        "none",
        description="Bytes its saved state may take on disk; a larger one is dropped. Applies at once.",
    )


class RestartPart(Part):
    """When the model is replaced by a fresh process, as soon as it is idle. Apply at once."""

    after: f.Age = written(
        "never", description="Seconds, or a duration, at least 1m, after its process was started."
    )
    requests: f.Count | None = Field(
        default=None, description="Requests its process has served. Default: any number."
    )
    growth: e.SizeOrNone = written("none", description="Bytes it holds above what it held when it was ready.")


class AdapterPart(Part):
    """A low-rank adapter (LoRA) on top of the weights."""

    path: f.PathText = Field(description="The adapter's file or folder, relative to this file.")
    scale: e.Scale = Field(default=1.0, description="How strongly it counts.")
