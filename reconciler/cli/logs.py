"""`reconcile logs MODEL`: what a model's process wrote."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import CliError, UsageError, note
from reconciler.log_lines import BLOCK, Masked, end_of, last_lines, rotated_of, with_rotated
from reconciler.render.paint import one_line

_POLL: Final = 0.2
#: Bytes of what was printed last, by which the place is found again in a rotated file.
_MEMORY: Final = 4096
_UNKNOWN: Final = (
    "note: the manifest cannot be read here: of secrets only what looks like one by its name is masked"
)


def logs(
    model: options.Model,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative=(), show_default=False, help="Go on as lines come.")
    ] = False,
    lines: Annotated[
        int, Parameter(name=["--lines", "-n"], metavar="N", help="How many of the last lines to begin with.")
    ] = 50,
    state_dir: options.StateDir = None,
) -> int:
    """Print the last lines of a model's log.

    Works from the files of the state directory, also while no loop runs. Secrets are masked.
    """
    from reconciler.store.paths import state_dir as resolve

    if lines < 0:
        raise UsageError(f"--lines must not be below zero, not {lines}")
    path, secrets = _log_file(model, resolve(state_dir, create=False))
    if not follow and not path.exists():
        raise CliError(f"{one_line(model)} has no log yet: {path} does not exist")
    if secrets is None:
        note(_UNKNOWN)
    shown = Masked(secrets or frozenset())
    if not follow:
        _write(shown.feed(last_lines(path, lines)) + shown.rest())
        return 0
    for piece in following(path, lines, lambda: time.sleep(_POLL)):
        _write(shown.feed(piece))
    return 0


def _secrets(model: str, manifest: str) -> frozenset[str] | None:
    """Return the secrets of a model's launch; None where the manifest cannot be read here and now.

    What only looks like a secret, by the name before it, is masked all the same.
    """
    from reconciler.excerpt import secrets_of
    from reconciler.manifest import ManifestError, load_manifest

    try:
        return secrets_of(load_manifest(Path(manifest), environ=os.environ).launches.get(model))
    except ManifestError:
        return None


def _log_file(model: str, state_dir: Path) -> tuple[Path, frozenset[str] | None]:
    """Ask the loop, which knows aliases and the manifest; without one take the name as it is."""
    from reconciler.cli.client import LoopClient, NotRunningError, running_url
    from reconciler.cli.names import find_model

    if url := running_url(state_dir):
        try:
            status = LoopClient(url).status()
            found = find_model(status, model)
            if found["log"]:
                return Path(found["log"]), _secrets(found["name"], status["manifest"]["path"])
            model = found["name"]
        except NotRunningError:
            pass  # it has just ended: its files are still there
    from reconciler.host.logs import safe_name

    return state_dir / "logs" / f"{safe_name(model)}.log", None


def _write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def following(path: Path, lines: int, pause: Callable[[], None]) -> Iterator[bytes]:
    """Yield the last `lines` lines of a log file and then what is added, for ever, over rotations.

    The file is rotated by copying it to `NAME.log.1` and emptying it; what came in just before is read from the
    copy. A file that does not exist yet is waited for. `pause` is called when there is nothing new. Raises OSError.
    """
    offset, recent = 0, b""
    if path.exists():
        with path.open("rb") as file:
            offset = os.fstat(file.fileno()).st_size
            recent = os.pread(file.fileno(), min(offset, _MEMORY), max(0, offset - _MEMORY))
            begin = end_of(file.fileno(), offset, lines)
        yield with_rotated(path, begin, lines)
    while True:
        size = path.stat().st_size if path.exists() else 0
        if size < offset:
            if missed := _missed(rotated_of(path), recent):
                yield missed
            offset, recent = 0, b""
        if size > offset:
            with path.open("rb") as file:
                file.seek(offset)
                piece = file.read(BLOCK)
            offset += len(piece)
            recent = (recent + piece)[-_MEMORY:]
            yield piece
        else:
            pause()


def _missed(rotated: Path, recent: bytes) -> bytes:
    """Return what the rotated file holds after the bytes that were printed last."""
    try:
        data = rotated.read_bytes()
    except FileNotFoundError:
        return b""
    at = data.rfind(recent) if recent else -1
    return data[at + len(recent) :] if at >= 0 else b""
