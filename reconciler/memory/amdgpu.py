"""AMD GPUs: how much of the machine's memory they may use, and what their driver holds for each process.

Two kinds of memory must be kept apart. GTT is pages of ordinary memory that the driver holds; `gtt_total` is a ceiling
inside the machine's memory, never on top of it. VRAM lies outside `MemTotal`: on a card it is the card's own, on an
integrated GPU the firmware has set it aside.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.memory import GpuPool
from reconciler.memory.drm import Client, DrmError, parse_size, read_clients
from reconciler.memory.procfs import read_text

_VENDOR: Final = "0x1002"
_DRIVER: Final = "amdgpu"


@dataclass(frozen=True, slots=True)
class Card:
    """One AMD GPU as sysfs names it."""

    name: str
    folder: Path
    #: Whether it shares the machine's memory, and what tells so, for people.
    integrated: bool
    evidence: str


def find_cards(root: Path = Path("/")) -> tuple[Card, ...]:
    """Return the GPUs that the amdgpu driver runs, sorted by name. Blocks for a few small reads."""
    cards: list[Card] = []
    for folder in sorted((root / "sys/class/drm").glob("card*")):
        device = folder / "device"
        if not re.fullmatch(r"card[0-9]+", folder.name) or not (device / "mem_info_gtt_total").exists():
            continue  # an output of a card, or another driver
        if _word(device / "vendor") == _VENDOR:
            cards.append(Card(folder.name, device, *_kind(device)))
    return tuple(cards)


class AmdGpu:
    """`DeviceProbe` of AMD GPUs. `root` is where `proc/` and `sys/` are looked for."""

    name = "amdgpu"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._cards = find_cards(root)
        self._others = _nodes_of_others(root)
        self._problems: dict[str, tuple[str, ...]] = {}

    def pool(self) -> GpuPool | None:
        """Return ceiling and use of the memory that integrated GPUs may take from the machine, in bytes.

        None where there are cards with memory of their own only. Blocks for two small reads.
        """
        cards = [card for card in self._cards if card.integrated]
        read = {card: (self._gtt(card, "total"), self._gtt(card, "used")) for card in cards}
        self._problems["pool"] = tuple(
            f"amdgpu {card.name}: mem_info_gtt_{name} is not a size"
            for card, sizes in read.items()
            for name, size in zip(("total", "used"), sizes, strict=True)
            if size is None
        )
        if not cards:
            return None
        totals, used = zip(*read.values(), strict=True)
        # All GPUs draw on one limit of the kernel (ttm.pages_limit), so ceilings do not add up; what they use does.
        return GpuPool(
            ceiling=None if None in totals else max(totals),
            used=None if None in used else sum(used),
            source=f"amdgpu {', '.join(card.name for card in cards)}: GTT",
        )

    def held(self, pids: Collection[int]) -> Mapping[int, int] | None:
        """Return the bytes of the machine's memory that the driver holds for each of `pids` (GTT, not VRAM).

        Source: `drm-resident-gtt`, or `drm-memory-gtt` on kernels that do not split it. None if one of `pids` may
        not be read; a process that has ended holds nothing.
        """
        return self._by_process(pids, "gtt")

    def vram(self, pids: Collection[int]) -> Mapping[int, int] | None:
        """Return the bytes of VRAM of each of `pids`: for people, as they are not part of the machine's memory."""
        return self._by_process(pids, "vram")

    def problems(self) -> tuple[str, ...]:
        """Return one sentence for each thing that the last calls could not understand."""
        return tuple(dict.fromkeys(line for key in sorted(self._problems) for line in self._problems[key]))

    def notes(self) -> tuple[str, ...]:
        """Return one sentence for each GPU, for people: which kind it is and by what that is told. Blocks briefly."""
        return tuple(self._note(card) for card in self._cards)

    def _note(self, card: Card) -> str:
        vram = _size(card.folder / "mem_info_vram_total")
        amount = "an unknown amount" if vram is None else f"{vram / 1024**2:.0f} MiB"
        kind = "integrated" if card.integrated else "a card"
        return (
            f"amdgpu {card.name} is {kind} ({card.evidence}); {amount} of VRAM is not counted as memory here"
        )

    def _gtt(self, card: Card, name: str) -> int | None:
        size = _size(card.folder / f"mem_info_gtt_{name}")
        return None if name == "total" and size == 0 else size

    def _by_process(self, pids: Collection[int], region: str) -> Mapping[int, int] | None:
        self._problems[region] = ()
        found: dict[int, int] = {}
        seen: set[tuple[str, ...]] = set()
        try:
            # In order of the pid, so a client that several processes share goes to the smallest.
            for pid in sorted(set(pids)):
                for client in read_clients(self._root, pid, self._others):
                    if client.driver == _DRIVER and client.key not in seen:
                        seen.add(client.key)
                        found[pid] = found.get(pid, 0) + _resident(client, region, pid)
        except DrmError as error:
            self._problems[region] = (f"amdgpu: {error}",)
            return None
        return {pid: size for pid, size in found.items() if size}


def _resident(client: Client, region: str, pid: int) -> int:
    for name in (f"resident-{region}", f"memory-{region}"):
        if name in client.fields:
            size = parse_size(client.fields[name])
            if size is None:
                raise DrmError(f"drm-{name} of process {pid} is not a size")
            return size
    raise DrmError(f"the driver does not state how much {region} process {pid} holds")


def _kind(device: Path) -> tuple[bool, str]:
    """Tell an integrated GPU (True) from a card by what the driver shows of it; the last test is a guess.

    Sources: the kernel leaves `board_info` out for integrated GPUs, and shows a voltage of the north bridge
    (hwmon `in1`, "vddnb") for these only; a maker of memory chips is known for cards only. GTT is half of the
    machine's memory or more by default, so it says nothing where a card is smaller than that.
    """
    if (device / "board_info").exists():
        return False, "it has a board_info"
    maker = _word(device / "mem_info_vram_vendor")
    if maker and maker != "unknown":
        return False, "its memory chips have a maker"
    if any(_word(path) == "vddnb" for path in sorted(device.glob("hwmon/hwmon*/in1_label"))):
        return True, "it has a north bridge voltage"
    vram, gtt = _size(device / "mem_info_vram_total"), _size(device / "mem_info_gtt_total")
    if vram is None or gtt is None:
        return True, "assumed, as its sizes cannot be read"
    return (
        gtt > vram,
        "its VRAM is smaller than its GTT" if gtt > vram else "its VRAM is not smaller than its GTT",
    )


def _nodes_of_others(root: Path) -> frozenset[str]:
    """Return the names in /dev/dri that are known to belong to another maker's GPU."""
    vendors = {
        path.parent.parent.name: _word(path) for path in (root / "sys/class/drm").glob("*/device/vendor")
    }
    return frozenset(name for name, vendor in vendors.items() if vendor not in ("", _VENDOR))


def _word(path: Path) -> str:
    return (read_text(path) or "").strip()


def _size(path: Path) -> int | None:
    return parse_size(_word(path))
