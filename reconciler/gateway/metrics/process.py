"""What is measured of our own process, by the names that every client library of Prometheus gives these."""

import contextlib
import resource
from typing import Final

import psutil

from reconciler.gateway.metrics.exposition import Page
from reconciler.gateway.metrics.family import Family

CPU = Family("process_cpu_seconds_total", "counter", "Seconds of processor time the manager itself used.")
RSS = Family("process_resident_memory_bytes", "gauge", "Resident memory of the manager itself in bytes.")
VIRTUAL = Family("process_virtual_memory_bytes", "gauge", "Virtual memory of the manager itself in bytes.")
OPEN = Family("process_open_fds", "gauge", "File descriptors the manager has open.")
MOST = Family("process_max_fds", "gauge", "File descriptors the manager may have open.")
STARTED = Family("process_start_time_seconds", "gauge", "When the manager began, in seconds since 1970.")
FAMILIES: Final = (CPU, RSS, VIRTUAL, OPEN, MOST, STARTED)


def write(page: Page) -> None:
    """Write it. What the system does not tell is left out. Reads a few files of /proc; blocks briefly."""
    me = psutil.Process()
    with contextlib.suppress(psutil.Error, OSError), me.oneshot():
        times, memory = me.cpu_times(), me.memory_info()
        page.add(CPU, times.user + times.system)
        page.add(RSS, memory.rss)
        page.add(VIRTUAL, memory.vms)
        page.add(STARTED, me.create_time())
        page.add(OPEN, me.num_fds())
    page.add(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
