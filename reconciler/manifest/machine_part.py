"""The keys of `machine`: what models may use of it, and when it is too full."""

from typing import Annotated

from pydantic import Field, PlainValidator

from reconciler.manifest import fields as f
from reconciler.manifest.applied import OnExit
from reconciler.manifest.parts import Part, written

OnExitField = Annotated[OnExit, PlainValidator(f.choice(OnExit)), f.schema(enum=[o.value for o in OnExit])]


class Marks(Part):
    """Shares of the machine's memory in use, by models and all other programs, at which something is done."""

    soft: f.Share = written(
        "75%", description="Above it, only models that somebody waits for (or that are pinned) are loaded."
    )
    hard: f.Share = written(
        "85%",
        description="No load may lead above it. When other programs, or a model that grew, do: models are evicted, one "
        "after the other, the lowest priority first, until use is below `target`.",
    )
    critical: f.Share = written(
        "95%", description="Above it, models in use are evicted too; pinned ones stay."
    )
    target: f.Share = written("75%", description="Evicting for the hard mark ends below it.")
    window: f.Window = written(
        "10s",
        description="A duration of 1s to 10m, or seconds, over which use is averaged: no single reading evicts.",
    )


class SwapLimits(Part):
    """When swapping evicts."""

    max_used: f.MemoryOrNever = written(
        "10GiB",
        description="Swap in use above which a model is evicted as long as the machine goes on swapping; `never` = "
        "only the growth of swap counts. Applies at once.",
    )


class Machine(Part):
    """What models may use of this machine."""

    memory: f.MemoryOrAuto = written(
        "auto",
        description="Memory for models and the reserve together: a size in bytes or with a unit (8GiB, 8GB), or `auto` "
        "for what the machine, its control groups and limits offer. Never more than that is used. Applies at once.",
    )
    reserve: f.Reserve = written(
        "10%",
        description="Memory kept free for the system: a percentage of the memory, or a size. Applies at once.",
    )
    watermarks: Marks = Field(
        default_factory=Marks,
        description="What is done when the machine's memory fills up, whoever fills it. Apply at once.",
    )
    swap: SwapLimits = Field(default_factory=SwapLimits, description="When swapping evicts. Applies at once.")
    state_disk: f.Size = written(
        "10GiB",
        description="Disk that saved states of models may take together; the oldest go first. Applies at once.",
    )
    ports: f.Ports = written(
        "18100-18199",
        description="First and last port that models without a `port` of their own may be given. "
        "Running models keep theirs.",
    )
    on_exit: OnExitField = written(
        "stop",
        description="What becomes of the models when `reconcile` ends: they are stopped, or they run on and the next "
        "`reconcile` takes them over (leave). Applies at once.",
    )
