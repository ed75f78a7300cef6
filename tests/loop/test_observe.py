"""What one look at the files takes over from the look before."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.core.types import Manifest
from reconciler.host import Host, Ports
from reconciler.leases import LeaseBook
from reconciler.loop.launches import Launches
from reconciler.loop.observe import PREFLIGHT_SECONDS, Observer
from reconciler.memory.machine import PsutilMachine
from tiny_gguf import write_llama

pytestmark = [pytest.mark.anyio, pytest.mark.engine]


async def test_an_estimate_that_changes_counts_at_the_next_look_and_files_only_after_a_while(
    tmp_path: Path,
) -> None:
    weights = write_llama(tmp_path / "tiny.gguf")
    spec = LaunchSpec(
        "m", "llama.cpp", weights=str(weights), context_tokens=100, context_bytes_per_token=1000
    )
    other = replace(spec, context_bytes_per_token=3000)
    assert launch_digest(spec) == launch_digest(other), "no restart is due"
    host = Host(tmp_path / "state", "owner")
    observer = Observer(host, PsutilMachine(), Launches(), LeaseBook(lambda: None))
    ports = Ports(18100, 18199)

    async def steady(wanted: LaunchSpec, now: float) -> int | None:
        [found] = (await observer.look(Manifest(()), {"m": wanted}, ports, now)).preflights
        return found.steady

    first = await steady(spec, 0.0)
    assert first is not None
    assert await steady(other, 1.0) == first + 200_000
    weights.unlink()
    assert await steady(other, PREFLIGHT_SECONDS) == first + 200_000
    assert await steady(other, 1.0 + PREFLIGHT_SECONDS) is None
    host.close()
