"""The disk of the state directory, a real one of a few MiB, is full or takes nothing any more; weights vanish."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from faults import around
from faults.cells import Cell
from faults.cells_around import ON_DISK, lasting, mostly_on_demand
from faults.rig import Rig, standing
from manager import SOON
from nursery import Nursery
from support import wait_for


@contextmanager
def on_disk(root: Path, nursery: Nursery) -> Iterator[Rig]:
    """A rig whose state directory is a disk of its own."""
    with around.small_disk(root / "state"), standing(root, nursery) as rig:
        yield rig


def _read_only(rig: Rig) -> None:
    rig.witnesses = {}
    rig.gone()
    assert rig.stop() == 0
    with around.read_only(rig):
        said = rig.refuses_to_start()
    assert "Read-only file system" in said
    rig.start()
    rig.wait_ready("pin")


def _full_at_start(rig: Rig) -> None:
    """The models are taken over; what has to be written waits."""
    rig.loaded("chat")
    rig.kill()
    with around.full(rig):
        rig.refuses_to_start()
    assert rig.processes("chat") == [rig.witnesses["chat"]]
    rig.start()
    rig.asks("chat").answered()


def _with_weights(rig: Rig) -> Path:
    """Have a model more whose weights are a file, loaded and served; return the file."""
    weights = rig.root / "weights.bin"
    weights.write_bytes(b"w" * 100_000)
    heavy = rig.scripted("heavy", "--weights-are", "${weights}", weights=str(weights))
    rig.use(rig.standard() | {"heavy": heavy})
    wait_for(lambda: "heavy" in [model["name"] for model in rig.status()["models"]], SOON, "a model more")
    rig.loaded("heavy")
    return weights


def _without_weights(rig: Rig) -> None:
    """Let the model go again."""
    rig.witnesses.pop("heavy", None)
    rig.use()
    wait_for(lambda: not rig.processes("heavy"), SOON, "the end of a model that left the manifest")


def _weights_removed(rig: Rig) -> None:
    weights = _with_weights(rig)
    kept = weights.rename(weights.with_suffix(".kept"))
    rig.asks("heavy").answered()
    rig.evict("heavy")
    wait_for(lambda: not rig.processes("heavy"), SOON, "the end of a model")
    end = rig.asks("heavy").ended()
    assert (end.status, end.what) == (503, "not_startable")
    kept.rename(weights)
    wait_for(lambda: rig.asks("heavy").ended().kind == "answered", SOON, "a model whose weights are back")
    _without_weights(rig)


def _weights_truncated(rig: Rig) -> None:
    weights = _with_weights(rig)
    with weights.open("r+b") as file:
        file.truncate(10)
    rig.asks("heavy").answered()
    rig.wait_calm()
    rig.asks("heavy").answered()
    _without_weights(rig)


_ALL: Final = (
    *lasting(ON_DISK),
    Cell(
        "disk-read-only",
        "starting",
        "The start is refused, and says that the file system is read-only.",
        _read_only,
    ),
    Cell(
        "disk-full",
        "starting",
        "The start is refused; the models live on and are taken over later.",
        _full_at_start,
    ),
    Cell(
        "weights-removed",
        "idle",
        "What is loaded serves on; a load is 503 `not_startable` until the file is back.",
        _weights_removed,
    ),
    Cell("weights-truncated", "idle", "What is loaded serves on as it is.", _weights_truncated),
)

CELLS: Final = mostly_on_demand(
    _ALL, "disk-full/idle", "disk-full/streaming", "disk-read-only/starting", "weights-removed/idle"
)
