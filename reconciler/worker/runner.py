"""The one thread that calls the class: it takes jobs in order, and puts items of several requests into one call.

It is the main thread, which also constructed the class: many frameworks bind what they made to its thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from .caches import IDLE_SECONDS, Caches
from .errors import Refused, name_of, say
from .jobs import Batch, Job
from .stats import Stats

_STOPPING = "the worker is stopping"


class Runner:
    """A queue of jobs. `batch_max` items are put into one call at most; the first waits `batch_wait` seconds."""

    def __init__(self, batch_max: int, batch_wait: float, caches: Caches, stats: Stats) -> None:
        self._most = batch_max
        self._wait = batch_wait
        self._caches = caches
        self._stats = stats
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._stopping = False

    # -- threads of requests -------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Put a job at the end of the line. Raises Refused when the worker is stopping."""
        with self._changed:
            if self._stopping:
                raise Refused(_STOPPING, 503)
            self._jobs.append(job)
            self._changed.notify()

    def stop(self) -> None:
        """Have `run` return after the call it is making; jobs in line are refused."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    # -- the thread that calls the class ---------------------------------------------------------------------------

    def run(self) -> None:
        """Work until `stop`."""
        while True:
            with self._changed:
                while not self._jobs and not self._stopping:
                    self._idle()
                if self._stopping:
                    break
                first = self._jobs[0]
                parts = self._collect(first) if isinstance(first, Batch) else None
                if parts is None:
                    self._jobs.popleft()
            if parts is None:
                if not first.abandoned:
                    self._call_alone(first)
            elif parts:
                self._call_together(parts)
        for job in self._jobs:
            job.fail(Refused(_STOPPING, 503))

    def _idle(self) -> None:
        """Wait for a job, and empty the caches when none has come for a while."""
        if not self._changed.wait(IDLE_SECONDS if self._caches.dirty else None) and not self._stopping:
            # Nobody is served meanwhile, but requests can get in line.
            self._changed.release()
            try:
                self._caches.empty()
            finally:
                self._changed.acquire()

    def _collect(self, first: Batch) -> list[tuple[Batch, list[Any]]]:
        """Take items of the first job and of those like it; none if their clients have left. The lock is held."""
        self._wait_for_others(first)
        parts: list[tuple[Batch, list[Any]]] = []
        room = self._most
        for job in list(self._jobs):
            if not isinstance(job, Batch) or job.key != first.key:
                continue
            if not job.abandoned and room:
                items = job.take(room)
                room -= len(items)
                parts.append((job, items))
            if job.abandoned or not job.left:
                self._jobs.remove(job)
        return parts

    def _wait_for_others(self, first: Batch) -> None:
        """Wait until a batch is full, somebody else waits, or the time is up. The lock is held."""
        until = first.arrived + self._wait
        while not self._stopping:
            like = [job for job in self._jobs if isinstance(job, Batch) and job.key == first.key]
            left = until - time.monotonic()
            if left <= 0 or len(like) < len(self._jobs) or sum(job.left for job in like) >= self._most:
                return
            self._changed.wait(left)

    def _call_alone(self, job: Job) -> None:
        began = time.monotonic()
        error = job.perform()
        self._called(began, error)

    def _call_together(self, parts: list[tuple[Batch, list[Any]]]) -> None:
        """Make one call for all items; if it fails, one for each request, so that only the guilty one fails."""
        items = [item for _, part in parts for item in part]
        began = time.monotonic()
        try:
            results = parts[0][0].call(items)
        except BaseException as error:  # signals are not told as exceptions here: it is the class's own
            self._called(began, error, len(items))
            if len(parts) == 1:
                self._drop(parts[0][0], error)
                return
            say(
                f"worker: a call for {len(items)} items failed, each request is tried alone: {name_of(error)}"
            )
        else:
            self._called(began, None, len(items))
            for job, part in parts:
                job.give(results[: len(part)])
                results = results[len(part) :]
            return
        for one in parts:
            self._call_together([one])

    def _drop(self, job: Batch, error: BaseException) -> None:
        job.fail(error)
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def _called(self, began: float, error: BaseException | None, items: int | None = None) -> None:
        self._stats.call(time.monotonic() - began, error is not None, items)
        self._caches.called()
        if error is not None:
            self._caches.failed(error)
