"""Memory that comes with a load and that nobody owns up to: a driver's, where there is one, else somebody else's."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.core.memory import GpuPool, HostUse, Memory
from reconciler.core.types import Manifest, Preflight
from reconciler.host import Host, Ports, Process
from reconciler.leases import LeaseBook
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.observe import Observer
from reconciler.memory.probe import Held

pytestmark = pytest.mark.anyio
GIB = 1 << 30


@dataclass
class Machine:
    """A machine of 64 GiB in which so many bytes are held by nobody."""

    gpu: GpuPool | None
    nobodys: int = 0
    pace: float = 1.0

    def glance(self, now: float) -> int | None:
        return self.read(now).available

    def read(self, now: float) -> Memory:
        del now
        available = 40 * GIB - self.nobodys
        return Memory(64 * GIB, available, host=HostUse(64 * GIB, available, 20 * GIB, GIB), gpu=self.gpu)

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, *, walk: Collection[str] = ()
    ) -> Mapping[str, Held]:
        del now, walk
        return {key: Held(GIB, 0) for key in trees}


@pytest.mark.parametrize(
    ("gpu", "came", "charged"),
    [
        (GpuPool(), 3 * GIB, 3 * GIB),
        (GpuPool(), GIB // 2, 0),
        # Without a GPU that shares the memory it was a neighbour who locked pages, or a balloon of the hypervisor.
        (None, 3 * GIB, 0),
    ],
)
async def test_only_a_driver_can_hold_what_nobody_owns_up_to(
    tmp_path: Path, gpu: GpuPool | None, came: int, charged: int
) -> None:
    machine, launches = Machine(gpu), Launches()
    host = Host(tmp_path / "state", "owner")
    observer = Observer(host, machine, launches, LeaseBook(lambda: None))
    await observer.look(Manifest(()), {}, Ports(18100, 18199), 0.0)
    launch = Launch("id", "m", "digest", None, Process(os.getpid(), 0), 18100, 0.0)
    observer.begin(launch, (Preflight("m"), None), 0.0)
    launches.add(launch)
    machine.nobodys = came
    await observer.measure(launch, 1.0)
    assert launch.unowned == charged
    host.close()
