"""Starts a real llama.cpp server, fills its context, and compares what it holds with the estimate."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Estimate, Said
from reconciler.engines import registry
from reconciler.memory.procfs import kib_fields
from support import free_port

MIB: Final = 1024 * 1024
#: The estimate may be off by the larger of these.
SHARE: Final = 0.05
LEAST: Final = 32 * MIB
#: File pages that are program and libraries, not weights: in the resident size, in no account.
LIBRARIES: Final = 20_000_000
_LOCKED: Final = "mmap+mlock"
_ENGINE: Final = registry.get("llama.cpp")
_DEADLINE: Final = 240.0


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes a server held."""

    committed: int
    warm: int
    #: Most bytes at any time, libraries left out.
    peak: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One launch: what was predicted, what was measured when it was ready and after its context was filled."""

    parts: Estimate
    #: Bytes of the files it maps without locking them.
    mapped: int
    ready: Held
    filled: Held
    said: Said | None

    @property
    def committed(self) -> int:
        """Predicted bytes that only the server can give back."""
        assert self.parts.steady is not None
        return self.parts.steady - self.mapped

    @property
    def committed_is_right(self) -> bool:
        """Whether committed bytes are within the bound."""
        return _near(self.committed, self.filled.committed)

    @property
    def sum_is_right(self) -> bool:
        """Whether committed and warm bytes together are within the bound."""
        return _near(self.committed + self.mapped, self.filled.committed + self.filled.warm)

    @property
    def peak_is_covered(self) -> bool:
        """Whether the server never held more than was predicted for its load and work."""
        assert self.parts.peak is not None
        return self.parts.peak >= self.filled.peak


def measure(spec: LaunchSpec, fill: int, log: Path) -> Outcome:
    """Run one launch and fill each slot with `fill` tokens. Blocks."""
    found = _ENGINE.preflight(spec)
    assert found.reason is None, found.message
    assert found.parts is not None, found.message
    with _running(spec, log) as (pid, url):
        ready = held(pid, spec)
        with httpx.Client(trust_env=False, timeout=_DEADLINE, base_url=url) as client:
            _ask_each_slot(client, spec, fill)
        filled = held(pid, spec)
    said = _ENGINE.said(log.read_text(errors="replace"))
    # What is mapped and locked cannot be dropped: it counts as committed on both sides.
    mapped = 0 if _LOCKED in spec.args else sum(file.size for file in found.files)
    return Outcome(found.parts, mapped, ready, filled, said)


def held(pid: int, spec: LaunchSpec) -> Held:
    """Return what the process holds now."""
    fields = kib_fields(Path(f"/proc/{pid}/status").read_text())
    own = sum(fields.get(kind, 0) for kind in ("RssAnon", "RssShmem", "VmSwap", "HugetlbPages"))
    locked = min(fields.get("VmLck", 0), fields["RssFile"]) if _LOCKED in spec.args else 0
    warm = max(0, fields["RssFile"] - locked - LIBRARIES)
    return Held(own + locked, warm, max(0, fields["VmHWM"] - LIBRARIES))


def _near(predicted: int, measured: int) -> bool:
    return abs(predicted - measured) <= max(SHARE * measured, LEAST)


@contextmanager
def _running(spec: LaunchSpec, log: Path) -> Iterator[tuple[int, str]]:
    port = free_port()
    command = _ENGINE.command(spec, port)
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command.argv, cwd=command.cwd, env={**os.environ, **command.env}, stdout=output, stderr=output
        ) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_healthy(process, url, log)
            yield process.pid, url
        finally:
            process.send_signal(signal.SIGKILL)


def _wait_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            if httpx.get(url + "/health", trust_env=False, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.02)
    raise AssertionError(f"not ready within {_DEADLINE:g} s")


def _ask_each_slot(client: httpx.Client, spec: LaunchSpec, length: int) -> None:
    """Send every slot a text of its own, all at once."""

    def ask(slot: int) -> None:
        tokens = [10 + slot] * length
        if spec.role is Role.EMBEDDING:
            answer = client.post("/v1/embeddings", json={"input": tokens})
        else:
            answer = client.post("/v1/completions", json={"prompt": tokens, "max_tokens": 2, "id_slot": slot})
        assert answer.status_code == 200, answer.text

    with ThreadPoolExecutor(spec.slots) as pool:
        list(pool.map(ask, range(spec.slots)))
