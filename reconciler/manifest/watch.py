"""Watches a manifest and publishes it whenever its content changes, however it was saved.

Notifications only say *when* to look. What counts is a digest of the bytes, read anew each time, so that a change
that nobody announces (network mounts, a file of the same size and time) is found by the slow re-read.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.from_thread
import anyio.to_thread
import structlog

# Not `watchfiles.watch`: it does not tell when it has begun to listen, and a save before that would go unseen.
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from reconciler.manifest import git
from reconciler.manifest.applied import Applied
from reconciler.manifest.diagnostics import ManifestError
from reconciler.manifest.files import Content, manifest_paths, read_content, shown
from reconciler.manifest.load import Engines, apply_content
from reconciler.manifest.settle import Published, Result, must_settle
from reconciler.manifest.watch_set import WatchSet, watch_set

#: Seconds without a further change before the files are read. The listener also wakes that often while nothing
#: happens: half of this would double what an idle program costs, and bring a save 30 ms sooner to its effect.
DEBOUNCE_SECONDS: Final = 0.06
#: Seconds between two looks where the system cannot tell of changes.
POLL_SECONDS: Final = 2.0
#: Seconds until a directory that vanished while it was about to be watched is looked for again.
VANISHED_SECONDS: Final = 0.1
#: Milliseconds after which a stream of changes is looked at although it goes on.
BURST_MS: Final = 200
#: Milliseconds one wait for changes lasts; it is ended earlier by its stop event.
WAIT_MS: Final = 3_600_000

#: What listening may fail with; UnicodeError = the path of a directory is not UTF-8.
_CANNOT_LISTEN: Final = (OSError, WatchfilesRustInternalError, UnicodeError)

_log = structlog.get_logger(__name__)


class ManifestWatcher:
    """Publishes the manifest at `path` (a file or a directory) at the start and after every change of its bytes.

    `slow`: seconds between re-reads that happen in any case. `debounce`: seconds without a further change before the
    files are read. `settle`: seconds a text that is broken or has lost something must stay the same before it is
    published. `environ`: what `${env:NAME}` sees.
    """

    def __init__(
        self,
        path: Path,
        *,
        environ: Mapping[str, str],
        slow: float = 20.0,
        debounce: float = DEBOUNCE_SECONDS,
        settle: float = 2.0,
        engines: Engines | None = None,
    ) -> None:
        self.path = path
        self.environ = environ
        self.slow = slow
        self.debounce = debounce
        self.settle = settle
        self.engines = engines
        #: How changes are noticed now: the system tells of them, or they are looked for every POLL_SECONDS.
        self.mode: Literal["notify", "polling"] = "notify"
        self._published = Published()
        self._also: tuple[str, ...] = ()
        self._pending: _Pending | None = None
        self._applied: Applied | None = None
        self._pulse: tuple[int, ...] = ()

    async def run(self, publish: Callable[[Result], None]) -> None:
        """Watch until cancelled. `publish` is called on the event loop, once for each distinct content."""
        watched = await anyio.to_thread.run_sync(self._watch_set)
        while True:
            wake = _Wake()
            listener, retry = await anyio.to_thread.run_sync(self._open, watched)
            async with anyio.create_task_group() as tasks:
                if listener is not None:
                    tasks.start_soon(anyio.to_thread.run_sync, self._listen, listener, watched, wake)
                try:
                    watched = await self._look_until_moved(watched, wake, retry, publish)
                finally:
                    wake.stop.set()

    async def _look_until_moved(
        self, watched: WatchSet, wake: "_Wake", retry: float | None, publish: Callable[[Result], None]
    ) -> WatchSet:
        """Look now and after every wake. Return what to watch when that has changed, or when listening must be retried.

        Looking comes after listening has begun, so nothing falls between the two.
        """
        retry_at = None if retry is None else anyio.current_time() + retry
        while True:
            wake.changed = anyio.Event()
            if wake.failure and retry_at is None:
                self._begin_polling(wake.failure)
                retry_at = anyio.current_time() + self.slow
            await self._look(publish)
            now = await anyio.to_thread.run_sync(self._watch_set)
            if now != watched or wake.moved or (retry_at is not None and anyio.current_time() >= retry_at):
                return now
            with anyio.move_on_after(self._patience(retry_at)):
                await wake.changed.wait()

    async def _look(self, publish: Callable[[Result], None]) -> None:
        """Read the files; publish their content if it is new and may be trusted yet."""
        content = await anyio.to_thread.run_sync(read_content, self.path, self._also)
        if content.digest == self._published.digest:
            self._pending = None
            await self._look_at_git(content, publish)
            return
        pending = self._pending
        if pending is None or pending.digest != content.digest:
            result, content = await anyio.to_thread.run_sync(self._apply, content)
            pending = _Pending(content.digest, result, content, anyio.current_time())
            if must_settle(result, content, self._published):
                self._pending = pending
                return
        elif anyio.current_time() < pending.since + self.settle:
            return
        self._pending = None
        self._published = self._published.after(pending.result, pending.content)
        self._applied = pending.result if isinstance(pending.result, Applied) else None
        self._pulse = await anyio.to_thread.run_sync(git.pulse, content)
        publish(pending.result)

    async def _look_at_git(self, content: Content, publish: Callable[[Result], None]) -> None:
        """Publish the same manifest anew when only its commit has changed: it was committed after it was saved."""
        pulse = await anyio.to_thread.run_sync(git.pulse, content)
        if self._applied is None or pulse == self._pulse:
            return
        self._pulse = pulse
        commit, dirty = await anyio.to_thread.run_sync(git.describe, content)
        source = replace(self._applied.source, git_commit=commit, git_dirty=dirty)
        if source != self._applied.source:
            self._applied = replace(self._applied, source=source)
            publish(self._applied)

    def _apply(self, content: Content) -> tuple[Result, Content]:
        """Validate; return the result, and the content with a digest that covers whatever else was read. Blocks."""
        try:
            result: Result = apply_content(content, environ=self.environ, engines=self.engines)
        except ManifestError as error:
            result = error
        also = result.source.also_read if isinstance(result, Applied) else result.also_read
        if also != self._also:
            self._also = also
            again = read_content(self.path, also)
            if again.files == content.files:
                content = again
        return result, content

    def _watch_set(self) -> WatchSet:
        try:
            files = [str(path) for path in manifest_paths(self.path)]
        except OSError:
            files = []
        return watch_set(self.path, [*files, *self._also])

    def _open(self, watched: WatchSet) -> tuple[RustNotify | None, float | None]:
        """Begin to listen. Return the listener, or None and the seconds until the next try. Blocks."""
        try:
            listener = RustNotify(list(watched.directories), False, False, 300, False, True)
        except FileNotFoundError:
            return None, VANISHED_SECONDS
        except _CANNOT_LISTEN as error:
            self._begin_polling(str(error))
            return None, self.slow
        if self.mode != "notify":
            _log.info("manifest_notified_again", path=shown(self.path))
        self.mode = "notify"
        return listener, None

    def _begin_polling(self, reason: str) -> None:
        if self.mode != "polling":
            _log.warning(
                "manifest_polling", reason=shown(reason), seconds=POLL_SECONDS, path=shown(self.path)
            )
        self.mode = "polling"

    def _listen(self, listener: RustNotify, watched: WatchSet, wake: "_Wake") -> None:
        """Wake the loop for every change that concerns the manifest, until told to stop. Runs in a worker thread.

        A listener that failed once fails for ever (a changed file whose name is not UTF-8 does that): it is given up.
        """
        step = max(1, round(self.debounce * 1000))
        try:
            while not wake.stop.is_set():
                changes = listener.watch(BURST_MS, step, WAIT_MS, wake.stop)
                paths = {path for _, path in changes} if isinstance(changes, set) else set()
                wake.moved = wake.moved or not paths.isdisjoint(watched.directories)
                if any(watched.concerns(path) for path in paths):
                    anyio.from_thread.run_sync(wake.set)
        except _CANNOT_LISTEN as error:
            wake.failure = str(error) or type(error).__name__
            anyio.from_thread.run_sync(wake.set)
        finally:
            listener.close()

    def _patience(self, retry_at: float | None) -> float:
        """Return the seconds until the next look that needs no wake."""
        now = anyio.current_time()
        waits = [self.slow]
        if self.mode == "polling":
            waits.append(POLL_SECONDS)
        if retry_at is not None:
            waits.append(retry_at - now)
        if self._pending is not None:
            waits.append(self._pending.since + self.settle - now)
        return max(0.0, min(waits))


class _Wake:
    """What the listening thread and the loop tell each other."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.changed = anyio.Event()
        #: A watched directory was moved or made anew, be it the same again by now: nobody tells of what is in it.
        self.moved = False
        #: Why the thread listens no more, if it had to give up.
        self.failure = ""

    def set(self) -> None:
        self.changed.set()


@dataclass(frozen=True, slots=True)
class _Pending:
    """A text that must stay the same until `since` + settle (loop time, seconds) before it counts."""

    digest: str
    result: Result
    content: Content
    since: float
