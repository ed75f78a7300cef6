"""Counts of what a worker has done, for `/stats`."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class Stats:
    """Counted by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = 0
        self._errors = 0
        self._active = 0
        self._calls = 0
        self._failed_calls = 0
        self._items = 0
        self._seconds = 0.0
        self._sizes: Counter[int] = Counter()

    @property
    def active(self) -> int:
        """Requests that are not answered yet."""
        with self._lock:
            return self._active

    def begin(self) -> None:
        """Count a request that has come in."""
        with self._lock:
            self._requests += 1
            self._active += 1

    def end(self, status: int) -> None:
        """Count its answer."""
        with self._lock:
            self._active -= 1
            self._errors += status >= 400

    def call(self, seconds: float, failed: bool, items: int | None = None) -> None:
        """Count one call of the class, of so many items if it was a batch."""
        with self._lock:
            self._calls += 1
            self._failed_calls += failed
            self._seconds += seconds
            if items is not None:
                self._items += items
                self._sizes[items] += 1

    def document(self) -> dict[str, Any]:
        """Return all counts. `seconds` is the time spent in the class."""
        with self._lock:
            batches = sum(self._sizes.values())
            return {
                "requests": self._requests,
                "errors": self._errors,
                "active": self._active,
                "calls": self._calls,
                "failed_calls": self._failed_calls,
                "seconds": round(self._seconds, 6),
                "batches": batches,
                "items": self._items,
                "items_per_batch": round(self._items / batches, 2) if batches else None,
                "batch_sizes": {str(size): count for size, count in sorted(self._sizes.items())},
            }
