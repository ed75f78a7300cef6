"""What a watch makes of what it sees: peak and steady, and that it ends with its context."""

import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence

import pytest

from reconciler.core.memory import Memory
from reconciler.host.identity import Process, identify
from reconciler.measure import Watch
from reconciler.memory.machine import open_machine
from reconciler.memory.probe import Held
from support import FAKE, free_port, wait_for

MIB = 1 << 20
MODEL = Process(42, 1)


class Script:
    """A probe that holds what the test says; counts its looks."""

    pace = 1.0

    def __init__(self, held: Held, available: int | None = 1000 * MIB) -> None:
        self.now, self.available = held, available
        self.looks = self.walks = 0

    def glance(self, now: float) -> int | None:
        return self.available

    def read(self, now: float) -> Memory:
        return Memory(2000 * MIB, self.available, "script")

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, *, walk: Collection[str] = ()
    ) -> Mapping[str, Held]:
        assert [*trees.values()] == [(42, 43)]
        self.looks += 1
        self.walks += bool(walk)
        return dict.fromkeys(trees, self.now)

    def see(self, held: Held) -> None:
        """Hold so much from now on; return once it has been looked at."""
        self.now = held
        seen = self.looks
        wait_for(lambda: self.looks >= seen + 2, 5, "two further looks")


def watching(script: Script) -> Watch:
    return Watch(script, lambda: MODEL, lambda process: (43, 42)[::-1])


def test_the_peak_of_the_load_and_the_steady_size_are_told_apart() -> None:
    script = Script(Held(10 * MIB, 0))
    with watching(script) as watch:
        script.see(Held(300 * MIB, 100 * MIB))
        script.available = 600 * MIB
        script.see(Held(100 * MIB, 100 * MIB, device=7))
        watch.steady()
        script.see(Held(120 * MIB, 100 * MIB, device=8))
        script.see(Held(90 * MIB, 50 * MIB))
        wait_for(lambda: watch.result.fell == 400 * MIB, 5, "a look at the machine")
    seen = watch.result
    assert (seen.steady, seen.peak) == (220 * MIB, 400 * MIB)
    assert (seen.committed, seen.warm, seen.device) == (120 * MIB, 100 * MIB, 8)
    assert seen.looks == script.looks
    assert script.walks >= 2
    assert not [t for t in threading.enumerate() if t.name == "measure"]


def test_what_cannot_be_read_is_unknown() -> None:
    script = Script(Held(None, None), available=None)
    with watching(script) as watch:
        watch.steady()
        script.see(Held(None, None))
    assert watch.result.steady is watch.result.peak is watch.result.committed is watch.result.fell is None


def test_the_systems_own_record_of_the_peak_counts() -> None:
    script = Script(Held(10 * MIB, 0, peak=500 * MIB))
    with watching(script) as watch:
        watch.steady()
        script.see(Held(10 * MIB, 0, peak=500 * MIB))
    assert (watch.result.steady, watch.result.peak) == (10 * MIB, 500 * MIB)


def test_a_fault_in_the_thread_is_raised_by_the_end() -> None:
    def find() -> Process | None:
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"), Watch(Script(Held(0, 0)), find):
        pass


def test_a_real_process_is_measured() -> None:
    with subprocess.Popen(
        [*FAKE, "--port", str(free_port()), "--rss-mib", "64"], stdout=subprocess.DEVNULL
    ) as child:
        try:
            with Watch(open_machine(), lambda: identify(child.pid)) as watch:
                watch.steady()
                wait_for(lambda: (watch.result.steady or 0) > 64 * MIB, 10, "64 MiB of the child")
        finally:
            child.kill()
    assert 64 * MIB < (watch.result.peak or 0) < 100 * MIB
    assert watch.result.peak == watch.result.steady
