"""From saving the manifest to the start of the process that the edit asks for."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.manager import Manager, end, fake, manifest, port_range, running, until
from benchmarks.report import Figure, progress
from benchmarks.stats import in_ms, median, percentile
from reconciler.manifest.watch import DEBOUNCE_SECONDS
from support import FAKE

SAVES: Final = 10
GOAL_SECONDS: Final = 0.150
MODEL: Final = "edited"
FILE: Final = "models.yaml"
#: Notices changes as the manager does, after the same quiet time, and does nothing else.
_BARE_WATCHER: Final = """
import sys, time
from watchfiles import watch
print("ready", flush=True)
for _ in watch(sys.argv[1], debounce=200, step=int(sys.argv[2]), recursive=False, yield_on_timeout=False):
    print(time.time_ns(), flush=True)
"""


def save_in_place(folder: Path, text: str) -> int:
    """Truncate and write, as `cp` and most scripts do. Like all of these, returns when it began, in ns."""
    began = time.time_ns()
    (folder / FILE).write_text(text)
    return began


def save_by_rename(folder: Path, text: str) -> int:
    """Write another file and move it over the old one, as most editors do."""
    draft = folder / f".{FILE}.swp"
    began = time.time_ns()
    draft.write_text(text)
    draft.replace(folder / FILE)
    return began


def save_slowly(folder: Path, text: str) -> int:
    """Truncate, and write the text only when the empty file has been there for a while."""
    with (folder / FILE).open("w") as file:
        time.sleep(0.03)
        began = time.time_ns()
        file.write(text)
    return began


def save_in_a_burst(folder: Path, text: str) -> int:
    """Save five times, 5 ms apart, as tools that format on save do; counted from the first."""
    began = save_by_rename(folder, text)
    for number in range(4):
        time.sleep(0.005)
        save_by_rename(folder, text + "#\n" * (number + 1))
    return began


def save_by_link(folder: Path, text: str) -> int:
    """Write a new directory and swing the link to it, as Kubernetes does for a ConfigMap."""
    version = folder / f"..{time.time_ns()}"
    draft, data = folder / "..data_tmp", folder / "..data"
    began = time.time_ns()
    version.mkdir()
    (version / FILE).write_text(text)
    draft.symlink_to(version.name)
    draft.replace(data)
    if not (folder / FILE).is_symlink():
        (folder / FILE).symlink_to(Path("..data") / FILE)
    return began


STYLES: Final[Mapping[str, Callable[[Path, str], int]]] = {
    "in place": save_in_place,
    "by rename": save_by_rename,
    "slowly": save_slowly,
    "in a burst": save_in_a_burst,
    "by link": save_by_link,
}


@dataclass(frozen=True, slots=True)
class Bench:
    """A watched folder, and the bare watcher beside the manager."""

    folder: Path
    stamp: Path
    watcher: "subprocess.Popen[str]"
    #: The manifest with the model pinned, and one that lets it go at once.
    on: str
    off: str

    def notice(self, began: int) -> float:
        """Return how many seconds after `began` the bare watcher first told of a change."""
        assert self.watcher.stdout is not None, "its output is a pipe"
        while (told := int(self.watcher.stdout.readline())) < began:
            pass
        return (told - began) / 1e9

    def started(self, began: int) -> float:
        """Return how many seconds after `began` the model's process started."""
        until(lambda: self.stamp.exists() and self.stamp.read_text().endswith("\n"), "a process is started")
        return (int(self.stamp.read_text()) - began) / 1e9


def run() -> Iterator[Figure]:
    """Save in every style; one line for each, and one for all together."""
    times: list[float] = []
    notices: list[float] = []
    for style, save in STYLES.items():
        progress(f"reaction: saving {style}")
        with bench(save) as (made, manager):
            pairs = [once(made, manager, save) for _ in range(SAVES)]
        times += [ours for ours, _ in pairs]
        notices += [bare for _, bare in pairs]
        yield _figure(f"save ({style}) to start of process", pairs)
    yield _figure("save (all styles) to start of process", list(zip(times, notices, strict=True)), goal=True)


@contextmanager
def bench(save: Callable[[Path, str], int]) -> Iterator[tuple[Bench, Manager]]:
    """Watch a folder twice: with a manager and with the bare watcher."""
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        # The stamp lies outside the watched folder: writing it must not look like a save.
        folder, stamp = Path(name) / "manifests", Path(name) / "stamp"
        folder.mkdir()
        on, off = _texts(stamp)
        save(folder, off)
        command = [sys.executable, "-c", _BARE_WATCHER, str(folder), str(round(DEBOUNCE_SECONDS * 1000))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
            try:
                assert watcher.stdout is not None, "its output is a pipe"
                watcher.stdout.readline()
                with running(folder) as manager:
                    manager.wait(MODEL, "cold")
                    yield Bench(folder, stamp, watcher, on, off), manager
            finally:
                end(watcher, signal.SIGKILL)


def _texts(stamp: Path) -> tuple[str, str]:
    # The shell notes the time (2 ms, which are counted) and becomes the engine.
    script = 'date +%s%N > "$1"; shift; exec "$@"'
    model = fake() | {"command": ["sh", "-c", script, "sh", str(stamp), *FAKE, "--port", "${port}"]}
    ports = port_range()
    pinned = manifest({MODEL: model | {"residency": "pinned"}}, ports=ports)
    leaving = manifest({MODEL: model | {"idle_ttl": "10ms"}}, ports=ports)
    return pinned, leaving


def once(made: Bench, manager: Manager, save: Callable[[Path, str], int]) -> tuple[float, float]:
    """Save an edit that loads a model; return our seconds and the bare watcher's. Then undo it."""
    began = save(made.folder, made.on)
    result = made.started(began), made.notice(began)
    manager.wait(MODEL, "ready")
    save(made.folder, made.off)
    manager.wait(MODEL, "cold")
    made.stamp.unlink()
    return result


def _figure(what: str, pairs: list[tuple[float, float]], *, goal: bool = False) -> Figure:
    ours = [pair[0] for pair in pairs]
    bare = [pair[1] for pair in pairs]
    return Figure(
        what=what,
        measured=f"{in_ms(median(ours))} (p95 {in_ms(percentile(ours, 95))}, {len(ours)} saves)",
        goal=f"< {in_ms(GOAL_SECONDS)}" if goal else "",
        met=median(ours) < GOAL_SECONDS if goal else None,
        reference=f"a bare watcher notices: {in_ms(median(bare))}",
        ratio=median([a / b for a, b in pairs]),
    )
