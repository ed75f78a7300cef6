"""A worker in threads of this process: its class lies in the test, and its counters can be looked at."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from reconciler.worker.server import Server
from reconciler.worker.service import Service
from reconciler.worker.settings import Settings
from reconciler.worker.stats import Stats
from support import free_port
from worker_process import SOON


@contextmanager
def serving(model: object, role: str = "chat") -> Iterator[httpx.Client]:
    """Serve an object until the block ends."""
    port = free_port()
    stats = Stats()
    server = Server(("127.0.0.1", port), role, 16, stats)
    server.service = Service(model, Settings("m:M", port, role, "m"), stats)
    threads = [
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True),
        threading.Thread(target=server.service.run, daemon=True),
    ]
    for thread in threads:
        thread.start()
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=SOON) as client:
        yield client
    server.service.stop()
    server.shutdown()
    server.server_close()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    server.service.close()
