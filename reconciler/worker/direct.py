"""Calls of a class that says `concurrent = True`: each in the thread of its request, side by side."""

from __future__ import annotations

import threading
import time

from .caches import IDLE_SECONDS, Caches
from .errors import Failed, Refused
from .jobs import Batch, Job, Stream
from .stats import Stats


class Direct:
    """Stands where a `Runner` does; nothing is put together, since nothing has to wait for its turn."""

    def __init__(self, batch_max: int, caches: Caches, stats: Stats) -> None:
        self._most = batch_max
        self._caches = caches
        self._stats = stats
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def submit(self, job: Job) -> None:
        """Do the job before this returns; pieces of a stream are made in a thread of its own."""
        if self._stop.is_set():
            raise Refused("the worker is stopping", 503)
        if isinstance(job, Stream):
            threading.Thread(target=self._perform, args=(job,), daemon=True).start()
        elif isinstance(job, Batch):
            self._perform_batch(job)
        else:
            self._perform(job)

    def stop(self) -> None:
        """Have `run` return."""
        self._stop.set()

    def run(self) -> None:
        """Wait until `stop`, and empty the caches from time to time."""
        while not self._stop.wait(IDLE_SECONDS):
            with self._lock:
                if self._caches.dirty and not self._stats.active:
                    self._caches.empty()

    def _perform(self, job: Job) -> None:
        began = time.monotonic()
        self._called(began, job.perform())

    def _perform_batch(self, job: Batch) -> None:
        while job.left:
            items, began = job.take(self._most), time.monotonic()
            try:
                job.give(job.call(items))
            except BaseException as error:  # the thread is a client's, who waits for an answer
                job.fail(error)
                self._called(began, error, len(items))
            else:
                self._called(began, None, len(items))

    def _called(self, began: float, error: BaseException | None, items: int | None = None) -> None:
        self._stats.call(time.monotonic() - began, error is not None, items)
        with self._lock:
            self._caches.called()
            if error is not None and not isinstance(error, Failed):
                self._caches.failed(error)
