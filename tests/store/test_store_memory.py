"""What the open file takes of the memory of its process, however much is written and read."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.host.identity import LINUX

#: It was 50 to 150 KiB when this was written, and 1,760 without a bound on the pages that SQLite keeps.
GROWN_KIB = 700
_WRITE = """
import sys
from pathlib import Path
from reconciler.store import RequestRecord, Store

def held():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))

def write(store, thousands):
    for at in range(thousands):
        store.add_requests([RequestRecord(0, float(at), "m", "", 0.0, 0.0, 0.01, None, None, "ok")] * 1000)

with Store(Path(sys.argv[1])) as store:
    write(store, 1)
    before = held()
    write(store, 60)
    print(held() - before, len(store.requests(limit=100_000)))
"""


@pytest.mark.skipif(not LINUX, reason="it reads what the kernel of Linux says of a process")
def test_many_requests_leave_little_in_memory(tmp_path: Path) -> None:
    """SQLite by itself keeps two MiB of pages, for nothing: ours are in the system's cache anyway."""
    ran = subprocess.run(
        [sys.executable, "-c", _WRITE, str(tmp_path / "ledger.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    grown, kept = map(int, ran.stdout.split())
    assert kept == 61_000
    assert grown < GROWN_KIB, f"it grew by {grown} KiB"
