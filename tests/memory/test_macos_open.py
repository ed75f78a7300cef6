"""`open_machine`: each system gets its own probe, and any other one what psutil says."""

import os
import platform
from collections import namedtuple

import psutil
import pytest

from mac_outputs import GIB, Commands
from reconciler.core.memory import Memory, Swap
from reconciler.memory import devices
from reconciler.memory.machine import PsutilMachine, open_machine
from reconciler.memory.macos import MacMachine, Run
from reconciler.memory.probe import Held

ENDED = 2**22 + 7  # above the largest pid of Linux and macOS


@pytest.fixture
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(platform, "system", lambda: request.param)
    return str(request.param)


@pytest.mark.parametrize("system", ["Darwin"], indirect=True)
def test_a_mac_is_read_through_its_commands(system: str) -> None:
    machine = open_machine(Commands())
    assert isinstance(machine, MacMachine)
    assert machine.read(0.0).total == 32 * GIB


@pytest.mark.parametrize("system", ["Darwin"], indirect=True)
def test_a_mac_without_commands_is_unknown_and_says_so(system: str) -> None:
    memory = open_machine().read(0.0)
    assert (memory.total, memory.available) == (None, None)
    assert memory.problems == (
        "vm_stat cannot be run: nothing was given that may start /usr/bin/vm_stat",
        "sysctl cannot be run: nothing was given that may start /usr/sbin/sysctl",
    )


@pytest.mark.skipif(platform.system() != "Linux", reason="reads this machine")
def test_linux_has_a_probe_of_its_own() -> None:
    memory = open_machine().read(0.0)
    assert memory.total is not None
    assert memory.total > 0
    assert memory.host is not None


@pytest.mark.parametrize("system", ["Linux"], indirect=True)
def test_commands_are_lent_to_the_probes_of_drivers(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[Run] = []

    def find(*, run: Run) -> tuple[()]:
        lent.append(run)
        return ()

    monkeypatch.setattr(devices, "find_devices", find)
    commands = Commands()
    open_machine(commands)
    assert lent == [commands]


@pytest.mark.parametrize("system", ["FreeBSD"], indirect=True)
def test_any_other_system_is_read_through_psutil(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = namedtuple("figures", ["total", "available", "used"])
    monkeypatch.setattr(psutil, "virtual_memory", lambda: figures(16 * GIB, 9 * GIB, 0))
    monkeypatch.setattr(psutil, "swap_memory", lambda: figures(2 * GIB, 0, GIB))
    machine = open_machine()
    assert isinstance(machine, PsutilMachine)
    assert machine.read(0.0) == Memory(16 * GIB, 9 * GIB, "psutil on FreeBSD", Swap(2 * GIB, GIB))


@pytest.mark.parametrize("error", [RuntimeError("no vmstat"), OSError("no vmstat"), psutil.AccessDenied(1)])
def test_psutil_without_an_answer_is_unknown(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> object:
        raise error

    monkeypatch.setattr(psutil, "virtual_memory", fail)
    memory = PsutilMachine().read(0.0)
    assert (memory.total, memory.available) == (None, None)
    assert memory.problems == (memory.source,)
    assert "cannot read the memory" in memory.source


def test_psutil_counts_what_is_one_processs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = PsutilMachine()
    me = os.getpid()
    held = machine.held({"b": [me], "a": [me, me, ENDED], "c": [ENDED]}, 0.0)
    assert list(held) == ["a", "b", "c"]
    assert held["c"] == Held(0, 0)
    alone = held["b"].committed
    assert alone is not None
    assert alone > 1 << 20
    assert held["a"].committed == pytest.approx(alone, rel=0.1)

    def deny(process: psutil.Process) -> object:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", deny)
    assert machine.held({"a": [me, ENDED]}, 0.0)["a"].committed is None
