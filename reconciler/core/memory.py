"""The nouns of the memory account. Bytes are `int`, percentages and seconds are `float`; None = unknown, never 0."""

from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """How a figure is known: read just now, worked out from something else, or read before and perhaps outdated."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A file that processes map: its pages are in memory once, however many map it."""

    #: Device and inode, `259:2:1234`: two paths of one file have one key.
    key: str
    #: Bytes of it that are resident, or that will be once it is loaded.
    size: int


@dataclass(frozen=True, slots=True)
class Swap:
    """Swap of the machine, in bytes. `read` and `written` only ever grow: two looks make a rate."""

    total: int | None = None
    used: int | None = None
    read: int | None = None
    written: int | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """How much work waits for memory, where the system says so."""

    #: Percent of the last 10 s in which some, and all, tasks waited for memory (Linux PSI).
    some: float | None = None
    full: float | None = None
    #: Memory pressure level of macOS: 1 normal, 2 warning, 4 critical.
    level: int | None = None
    #: Bytes held by the compressor (macOS, zram, zswap).
    compressed: int | None = None


@dataclass(frozen=True, slots=True)
class HostUse:
    """The whole machine as its kernel accounts for it, whatever limits us; for telling who holds the rest."""

    total: int
    available: int
    #: Anonymous and shared pages of all programs, ours included.
    programs: int
    #: Pages only the kernel can give back: slab, page tables, stacks.
    kernel: int
    #: Pools set aside (huge pages), in no program.
    pools: int = 0


@dataclass(frozen=True, slots=True)
class GpuPool:
    """What a GPU may use of the machine's memory."""

    #: Most that may be GPU memory at the same time; a ceiling inside the memory, not on top of it.
    ceiling: int | None = None
    used: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """What was read of the machine's memory, in bytes. None = could not be read: then nothing is loaded for it.

    `total` and `available` already respect the control groups above us (the smaller of host and each level).
    """

    total: int | None
    available: int | None
    #: Where the figures come from, or why they are missing; for people.
    source: str = ""
    swap: Swap = Swap()
    stall: Stall = Stall()
    host: HostUse | None = None
    gpu: GpuPool | None = None
    #: One sentence for each probe that could not be understood; what it would have told is unknown.
    problems: tuple[str, ...] = ()
    #: File pages among what is available, where a control group binds: no more of our models' weights can be in there,
    #: the rest was read by somebody outside and is charged to nobody here. None = all may be.
    files: int | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a model will hold, by kind, before it is loaded. None = unknown, and then so is the sum."""

    #: The model's own bytes in memory.
    weights: int | None = None
    #: KV cache and recurrent state of all slots, at full length.
    context: int | None = None
    #: Buffers for intermediate results.
    compute: int | None = None
    #: Prompt cache that the server may grow to.
    cache: int = 0
    #: Interpreter, libraries, driver context.
    overhead: int = 0
    #: On top of all this while it loads.
    loading: int = 0

    @property
    def steady(self) -> int | None:
        """Bytes held once it is loaded and has worked."""
        if self.weights is None or self.context is None or self.compute is None:
            return None
        return self.weights + self.context + self.compute + self.cache + self.overhead

    @property
    def peak(self) -> int | None:
        """Most bytes held at any time, loading included."""
        steady = self.steady
        return None if steady is None else steady + self.loading


@dataclass(frozen=True, slots=True)
class Said:
    """What the engine's own log says a loaded model took, in bytes and tokens; None = it does not say."""

    weights: int | None = None
    context: int | None = None
    compute: int | None = None
    #: Of the weights: bytes wrapped for the GPU without a copy, which no process is charged for by the system.
    gpu_mapped: int | None = None
    #: Tokens of all slots together, as the engine really set them up.
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Shares of the memory in use (0-1) at which something is done, judged on a mean over `window` seconds."""

    #: Above it only what somebody waits for is loaded.
    soft: float = 0.75
    #: Above it models are evicted, one after the other, until use is below `target`; no load may lead above it.
    hard: float = 0.85
    #: Above it busy models go too, and only the pinned ones are kept.
    critical: float = 0.95
    target: float = 0.75
    window: float = 10.0
