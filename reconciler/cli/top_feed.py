"""What a live screen shows, from the running loop: followed, or asked for now and then, and taken up again when it
has broken off. A thread of its own only ever replaces what was seen last.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from reconciler.cli.client import LoopClient, NotRunningError, RefusedError, find_loop, running_url
from reconciler.cli.output import CliError
from reconciler.cli.sse import stream

Json = dict[str, Any]

#: Seconds between two questions where there is no stream, and after how many a stream is tried again.
POLL: Final = 2.0
STREAM_AGAIN: Final = 30.0
#: Seconds without a byte after which a loop counts as hanging: the live stream has a document at least every 5 s.
SILENCE: Final = 12.0
#: Seconds between two looks for a loop that is gone.
LOOK: Final = 1.0
EVENTS: Final = 200
LIVE: Final = "live"
ENDED: Final = "the loop has ended"
SILENT: Final = "the loop does not answer"


@dataclass(frozen=True, slots=True)
class Seen:
    """What came last."""

    status: Json
    plan: Json
    events: tuple[Json, ...]
    #: When `status` came, and how things come: `live`, `every 2 s`, or why they do not.
    arrived: float
    link: str
    #: When the loop was lost; None = it is there.
    lost_at: float | None = None


def seen_now(loop: LoopClient, link: str) -> Seen:
    """Ask for everything once. Raises NotRunningError, RefusedError."""
    status = loop.status()
    return Seen(status, loop.plan(), tuple(loop.newest_events(EVENTS)), time.monotonic(), link)


class Feed:
    """The newest of everything. `changed` is called after each change, from the feed's thread."""

    def __init__(self, directory: Path, first: Seen, changed: Callable[[], None]) -> None:
        self._directory = directory
        self._changed = changed
        self._seen = first
        self._over = threading.Event()
        #: Why nothing will come any more.
        self.failed: CliError | None = None

    @property
    def seen(self) -> Seen:
        """What came last, as a whole."""
        return self._seen

    def start(self) -> None:
        """Begin to follow. The thread ends with the program."""
        threading.Thread(target=self._run, name="feed", daemon=True).start()

    def close(self) -> None:
        """Tell nobody any more, and end soon."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._follow(find_loop(self._directory))
            except NotRunningError as error:
                self._lose(ENDED if running_url(self._directory) is None else str(error))
            except TimeoutError:
                self._lose(SILENT)
            except (OSError, http.client.HTTPException) as error:
                self._lose(f"the stream broke off ({error})")
            except CliError as error:
                self._refused(error)
            self._over.wait(LOOK)

    def _follow(self, loop: LoopClient) -> None:
        """Follow one loop until it ends, by asking where it has no stream."""
        self._put(seen_now(loop, LIVE))
        last = self._seen.events[-1]["id"] if self._seen.events else 0
        try:
            for kind, data in stream(loop.url, "/api/v1/stream", last, silence=SILENCE):
                if self._over.is_set():
                    return
                self._take(kind, data)
        except RefusedError as error:
            if error.status != http.client.NOT_FOUND and error.kind != "too_many_connections":
                raise
            self._poll(loop)
        else:
            self._lose(ENDED)

    def _take(self, kind: str, data: bytes) -> None:
        if kind not in ("status", "plan", "event"):
            return
        found: Json = json.loads(data)
        if kind == "status":
            self._put(replace(self._seen, status=found, arrived=time.monotonic(), link=LIVE, lost_at=None))
        elif kind == "plan":
            self._put(replace(self._seen, plan=found))
        else:
            self._put(replace(self._seen, events=(*self._seen.events, found)[-EVENTS:]))

    def _poll(self, loop: LoopClient) -> None:
        """Ask every few seconds for a while; then a stream may be tried again."""
        until = time.monotonic() + STREAM_AGAIN
        while time.monotonic() < until and not self._over.wait(POLL):
            self._put(seen_now(loop, f"every {POLL:g} s"))

    def _lose(self, why: str) -> None:
        since = self._seen.lost_at if self._seen.lost_at is not None else time.monotonic()
        self._put(replace(self._seen, link=why, lost_at=since))

    def _refused(self, error: CliError) -> None:
        """A loop that starts says so for a moment; a key that is refused stays refused."""
        if isinstance(error, RefusedError) and error.kind == "starting":
            self._lose("the loop is starting")
        else:
            self.failed = error
            self._over.set()
            self._changed()

    def _put(self, seen: Seen) -> None:
        self._seen = seen
        self._changed()
