"""Points inside the program at which a test has it die: patched from outside, nothing is built in.

A test arms one point by a file; the program looks at it whenever it passes any of them. Which points there are is
`POINTS`: every write to the ledger, and what is done to processes.
"""

import errno
import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, Literal

from reconciler.host import host, stop
from reconciler.store import Store

#: Writes to the ledger.
WRITES: Final = (
    *("put_launch", "drop_launch", "put_entry", "add_event", "generation"),
    *("add_load", "add_eviction", "add_requests", "bump_arrivals", "wanted_again"),
)
#: All points: those, reading the launches at a start, starting a process, and each signal that is sent to a model.
POINTS: Final = (*WRITES, "launches", "spawn", "SIGTERM", "SIGKILL")

When = Literal["before", "after"]


@dataclass(frozen=True)
class Wound:
    """The program is to die of SIGKILL when a point is passed for the n-th time since it was armed."""

    point: str
    nth: int
    when: When

    def arm(self, file: Path) -> None:
        """Have it happen in the program that looks at `file`."""
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(file)


class _Watch:
    """Counts how often the armed point was passed."""

    def __init__(self) -> None:
        self.file: Path | None = None
        self._text = ""
        self._passed = 0
        self._lock = threading.Lock()

    def pass_by(self, point: str, when: str) -> None:
        """Die, if that is armed for this point and it is time."""
        with self._lock:
            if self._due(point, when):
                os.kill(os.getpid(), signal.SIGKILL)

    def _due(self, point: str, when: str) -> bool:
        try:
            text = self.file.read_text() if self.file is not None else ""
        except FileNotFoundError:
            text = ""
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            return False  # nothing can be opened: that is this program's trouble now, and nothing was armed by it
        if text != self._text:
            self._text, self._passed = text, 0
        if not text or self.file is None:
            return False
        wound = Wound(**json.loads(text))
        if wound.point != point:
            return False
        self._passed += when == "before"
        if (wound.when, wound.nth) != (when, self._passed):
            return False
        self.file.unlink()
        return True


_WATCH: Final = _Watch()


def armed_by(file: Path) -> None:
    """Look at `file` from now on."""
    _WATCH.file = file


def _watched(call: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
    @wraps(call)
    def passing(*args: Any, **more: Any) -> Any:
        point = name(*args)
        _WATCH.pass_by(point, "before")
        result = call(*args, **more)
        _WATCH.pass_by(point, "after")
        return result

    return passing


def patch() -> None:
    """Put a watch at every point of this process."""
    for name in (*WRITES, "launches"):
        setattr(Store, name, _watched(getattr(Store, name), lambda *_, name=name: name))
    places: Any = host, stop
    places[0].spawn = _watched(places[0].spawn, lambda *_: "spawn")
    places[1]._send_all = _watched(places[1]._send_all, lambda _, number: signal.Signals(number).name)
