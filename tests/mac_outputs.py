"""What the commands of macOS print, written from figures that people have published; and a stand-in that runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.memory.macos import Output

GIB = 1024**3
MIB = 1024**2

_NAMES = (
    "Pages free",
    "Pages active",
    "Pages inactive",
    "Pages speculative",
    "Pages throttled",
    "Pages wired down",
    "Pages purgeable",
    '"Translation faults"',
    "File-backed pages",
    "Anonymous pages",
    "Pages stored in compressor",
    "Pages occupied by compressor",
    "Pageins",
    "Pageouts",
    "Swapins",
    "Swapouts",
)
CAPTURES: Mapping[str, tuple[int, ...]] = {
    # A Mac mini of 32 GB on two days, a Mac that swaps a lot, and an Intel Mac with pages of 4 KiB.
    "calm": (
        *(652276, 585195, 410479, 183582, 0, 134298, 23079, 8304623196),
        *(538942, 640314, 227817, 96636, 76117151, 2996313, 7, 16),
    ),
    "full": (
        *(15160, 892723, 889884, 2084, 0, 142222, 11748, 6256987137),
        *(516277, 1268414, 329758, 120555, 49449896, 1289523, 0, 0),
    ),
    "swapping": (
        *(26450, 850962, 825913, 24144, 0, 268246, 138454, 2867647168),
        *(414135, 1286884, 1057198, 44642, 78874554, 1906331, 714859, 1527838),
    ),
    "intel": (
        *(6127229, 485320, 628646, 430715, 0, 715958, 11820, 11477162),
        *(1080348, 464333, 0, 0, 280307, 0, 0, 0),
    ),
}


def vm_stat(capture: str = "calm", *, page: int | None = None, **changed: int | None) -> str:
    """Return the output for a capture; `changed` replaces counts (`wired_down=5`), None leaves a line out."""
    size = page or (4096 if capture == "intel" else 16384)
    lines = [f"Mach Virtual Memory Statistics: (page size of {size} bytes)"]
    for name, count in zip(_NAMES, CAPTURES[capture], strict=True):
        value = changed.get(name.removeprefix("Pages ").lower().replace(" ", "_").replace("-", "_"), count)
        if value is not None:
            lines.append(f"{name}:".ljust(32) + f"{value}.".rjust(16))
    return "\n".join(lines) + "\n"


SWAP_IN_USE = "total = 4096.00M  used = 2743.50M  free = 1352.50M  (encrypted)"


def sysctl(total: int = 32 * GIB, **changed: str | None) -> str:
    """Return the answer about the values asked for; `changed` replaces one by its last word, None leaves it out."""
    values = {
        "hw.memsize": str(total),
        "vm.swapusage": SWAP_IN_USE,
        "kern.memorystatus_vm_pressure_level": "1",
        "iogpu.wired_limit_mb": "0",
        "hw.optional.arm64": "1",
    }
    stated = {name: changed.get(name.rpartition(".")[2], value) for name, value in values.items()}
    return "".join(f"{name}: {value}\n" for name, value in stated.items() if value is not None)


@dataclass
class Commands:
    """Runs nothing: answers by the name of the program with a text, a whole output, or an error to raise."""

    answers: dict[str, str | Output | OSError] = field(
        default_factory=lambda: {"vm_stat": vm_stat(), "sysctl": sysctl()}
    )
    asked: list[tuple[tuple[str, ...], float]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], timeout: float) -> Output:
        self.asked.append((tuple(argv), timeout))
        answer = self.answers[argv[0].rpartition("/")[2]]
        if isinstance(answer, OSError):
            raise answer
        return Output(answer) if isinstance(answer, str) else answer
