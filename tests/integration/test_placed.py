"""A model has the CPUs, priority and GPUs of its `device:`; one for which the machine has none evicts nobody."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from manager import Manager, environment
from reconciler.engines.placement import reachable_cpus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of macOS has no such thing")


def placed(pid: int) -> set[tuple[str, int]]:
    """Return CPUs and niceness of every thread of a process."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        cpus = next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))
        found.add((cpus, int((task / "stat").read_text().rsplit(")", 1)[1].split()[16])))
    return found


def test_as_its_device_says(manager: Manager) -> None:
    last = (reachable_cpus() or (0,))[-1]
    device: Mapping[str, Any] = {"cpus": str(last), "nice": 4, "gpus": "none", "threads": 3}
    manager.write(
        {
            "placed": manager.fake("placed", residency="warm", device=device),
            "plain": manager.fake("plain", residency="warm"),
        }
    )
    manager.start()
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    [placed_pid], [plain_pid] = manager.wait_ready("placed"), manager.wait_ready("plain")
    assert placed(placed_pid) == {(str(last), ours + 4)}
    assert placed(plain_pid) == placed(manager.pid)
    assert {"CUDA_VISIBLE_DEVICES=-1", "HIP_VISIBLE_DEVICES=-1", "OMP_NUM_THREADS=3"} <= environment(
        placed_pid
    )
    assert not any(line.startswith("CUDA_VISIBLE_DEVICES") for line in environment(plain_pid))


def test_cpus_that_are_not_there_evict_nobody(manager: Manager) -> None:
    manager.write(
        {
            "old": manager.fake("old", size=300),
            "nowhere": manager.fake("nowhere", size=300, device={"cpus": "0,4001"}),
        },
        memory=400,
    )
    manager.start()
    assert manager.ask("old").status_code == 200
    answer = manager.ask("nowhere")
    assert answer.status_code == 503
    assert "device.cpus names CPU 4001" in answer.text
    assert manager.model("old")["state"] == "ready"
    assert "evict old" not in manager.steps()
