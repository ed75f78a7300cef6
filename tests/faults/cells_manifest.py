"""The manifest vanishes, is emptied, is no text or cannot be read, and comes back, whatever goes on meanwhile."""

from collections.abc import Callable
from typing import Final

from faults import around
from faults.cells import Cell
from faults.cells_around import Fault, goes_on, mostly_on_demand, refused
from faults.rig import Rig
from faults.states import STATES
from manager import SOON
from support import wait_for

#: Fault, and what the refusal says of it.
_FAULTS: Final[tuple[tuple[str, Fault, str], ...]] = (
    ("manifest-folder-removed", around.folder_removed, "there is no such file or directory"),
    ("manifest-folder-emptied", around.folder_emptied, "there is no *.yaml file in"),
    ("manifest-folder-is-a-file", around.folder_is_a_file, "a manifest is a mapping"),
    ("manifest-is-a-pipe", around.file_is_a_pipe, "it is a FIFO, not a file"),
    ("manifest-is-noise", around.file_is_noise, "not UTF-8"),
    ("manifest-is-a-link-to-itself", around.file_is_a_link_to_itself, "symbolic links"),
)
_SEES: Final = {
    "idle": "It is refused and said why; everything serves on. When it is back, no process is touched.",
    "loading": "It is refused and said why; the load goes on.",
    "streaming": "It is refused and said why; the stream goes on to its end.",
    "draining": "It is refused and said why; the model that had to go goes.",
}


def _running(fault: Fault, words: str, state: str) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        model = STATES[state](rig)
        generation = rig.status()["manifest"]["generation"]
        with fault(rig):
            refused(rig)
            valid = next(c for c in rig.status()["conditions"] if c["type"] == "ManifestValid")
            assert words in valid["message"]
            goes_on(rig, state, model)
            rig.asks("pin").answered()
        wait_for(lambda: rig.condition("ManifestValid"), SOON, "the manifest to be back")
        assert rig.status()["manifest"]["generation"] == generation
        rig.asks("pin").answered()

    return run


def _starting(fault: Fault, words: str) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        rig.loaded("chat")
        rig.kill()
        with fault(rig):
            said = rig.refuses_to_start()
        assert words in said
        assert rig.processes("chat") == [rig.witnesses["chat"]], (
            "a model was ended by a start that was refused"
        )
        rig.start()
        rig.asks("chat").answered()

    return run


_ALL: Final = (
    *(
        Cell(name, state, sees, _running(fault, words, state))
        for name, fault, words in _FAULTS
        for state, sees in _SEES.items()
    ),
    *(
        Cell(
            name,
            "starting",
            "The start is refused with the reason; models that an earlier run left serve on, and are taken over later.",
            _starting(fault, words),
        )
        for name, fault, words in _FAULTS
    ),
)

CELLS: Final = mostly_on_demand(
    _ALL, "manifest-folder-removed/streaming", "manifest-is-a-pipe/idle", "manifest-folder-emptied/starting"
)
