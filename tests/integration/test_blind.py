"""While the machine's memory cannot be read nobody is evicted and nothing is loaded, and what is resident serves on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager import SOON, Manager
from support import wait_for

SCRIPT = Path(__file__).parents[1] / "blind_manager.py"


class BlindManager(Manager):
    """A manager whose memory probe the test takes the sight of."""

    def command(self, *options: str) -> list[str]:
        """Run the program with the probe that can be blinded."""
        return [sys.executable, str(SCRIPT), *super().command(*options)[1:]]

    def see(self, how: str = "") -> None:
        """Have the probe go wrong in this way, or not at all."""
        Path(self.env["BLIND"]).write_text(how)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[BlindManager]:
    """A manager that is not started yet, and sees."""
    with BlindManager(tmp_path, env={"BLIND": str(tmp_path / "blind")}) as blindable:
        yield blindable


def start(manager: BlindManager) -> list[int]:
    """Load two models; a third one would need the room of one of them. Return their pids."""
    models = {
        "warm": manager.fake("warm", size=100, residency="warm"),
        "used": manager.fake("used", size=100),
        "third": manager.fake("third", size=150),
    }
    manager.write(models, memory=300)
    manager.start()
    assert manager.ask("used").status_code == 200
    pids = manager.wait_ready("warm", "used")
    manager.wait_calm()
    return pids


def test_nothing_is_done_while_the_memory_is_unknown(manager: BlindManager) -> None:
    before = start(manager)
    steps = manager.steps()
    for how, told in (
        ("unknown", "the figures were taken away"),
        ("garbage", "/proc/meminfo does not state MemTotal"),
        (
            "raises",
            "the memory probe failed (read): PermissionError: [Errno 13] Permission denied: '/proc/meminfo'",
        ),
    ):
        manager.see(how)
        blinded(manager, "MemoryUnknown", told)
        memory = manager.status()["memory"]
        assert (memory["total"], memory["available"], memory["free"]) == (None, None, None), how
        refused = manager.ask("third", timeout=5)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "insufficient_memory"), how
        assert "memory could not be read" in refused.json()["error"]["message"]
        assert refused.headers["retry-after"]
        serves_on(manager, before)
        # Nor does anybody have to go for a request while a figure is missing.
        assert manager.ask("third").status_code == 503, how
        assert manager.steps() == steps, how
    recovers(manager, len(steps))


def test_nobody_goes_while_what_models_hold_is_unknown(manager: BlindManager) -> None:
    before = start(manager)
    steps = manager.steps()
    for how, told in (
        ("half garbage", "what used holds is unknown: the status of a process cannot be read"),
        ("half raises", "the memory probe failed (held): ZeroDivisionError: a fault of ours"),
    ):
        manager.see(how)
        blinded(manager, "ProbeUnreadable", told)
        assert {m["name"]: m["held"] for m in manager.status()["models"]} == {
            "third": 0,
            "used": None,
            "warm": None,
        }
        serves_on(manager, before)
        assert manager.steps() == steps, how
    recovers(manager, len(steps))


def blinded(manager: BlindManager, reason: str, told: str) -> None:
    """Wait until the status says what cannot be read, and why."""

    def look() -> bool:
        found = manager.condition("Degraded")
        return found is not None and found["reason"] == reason and told in found["message"]

    wait_for(look, SOON, told)


def serves_on(manager: BlindManager, pids: list[int]) -> None:
    """Resident models answer, in the same processes, after many more looks."""
    seen = int(manager.status()["observation"])
    wait_for(lambda: int(manager.status()["observation"]) > seen + 10, SOON, "more looks")
    assert [manager.ask(name).json()["pid"] for name in ("warm", "used")] == pids
    assert manager.wait_ready("warm", "used") == pids


def recovers(manager: BlindManager, steps: int) -> None:
    """Once it sees again it does what it is asked for."""
    manager.see()
    wait_for(lambda: manager.condition("Degraded") is None, SOON, "that it sees again")
    assert manager.ask("third").status_code == 200
    manager.wait_log("loaded", model="third")
    assert manager.steps()[steps:] == ["evict warm", "evicted warm", "load third", "loaded third"]
    failures = manager.log("a memory probe failed: what it would tell is unknown")
    assert len(failures) == len({line["probe"] for line in failures}), "said once, not at every look"
    assert len(manager.log("the memory probe works again")) == len(failures)
