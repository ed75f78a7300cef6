"""Random faults at random times, with people asking: `PYTHONPATH=tests python -m faults.soak --minutes 30 --seed 1`.

Every 10 to 20 acts the manager gets time to put all in order, and the oracle judges everything there is. The acts are
drawn from the seed alone; how they meet what the machine does at that moment is not, so the same seed makes the same
acts, and may not make the same failure. What was done since all was well is printed when it is not.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from faults import around
from faults.acts import go_on, kill_manager, pause
from faults.clients import BOUND
from faults.oracle import ORDER, judge
from faults.rig import Rig, standing
from manager import SOON
from nursery import Nursery
from support import wait_for

MODELS: Final = ("pin", "chat", "slow", "deaf", "saves", "naps")
#: How often each act is drawn, relative to each other.
ACTS: Final = {
    "ask": 30,
    "stream": 14,
    "crowd": 6,
    "evict": 10,
    "load": 8,
    "edit": 6,
    "kill_model": 10,
    "term_model": 4,
    "pause_model": 4,
    "kill_manager": 6,
    "pause_manager": 4,
    "lose_ledger": 2,
    "hold_ledger": 2,
    "break_manifest": 3,
    "set_clock": 3,
    "take_ports": 2,
}


class Soak:
    """One run on a rig. All it does is drawn from `seed`."""

    def __init__(self, rig: Rig, seed: int, tell: Callable[[str], None] = lambda _: None) -> None:
        self.rig, self.random, self.tell = rig, random.Random(seed), tell
        #: What was done since all was found in order.
        self.since: list[str] = []
        self.acts: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.rounds = 0
        self.longest = 0.0

    def run(self, seconds: float) -> None:
        """Do and judge until the time is over. Raises AssertionError with the acts of the round that went wrong."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.round(self.random.randint(10, 20))

    def round(self, acts: int) -> None:
        """Do so many things, then let it come to rest and judge it."""
        self.rig.begin()
        self.since = []
        try:
            for _ in range(acts):
                self.act()
            self._settle()
        except Exception as error:
            done = "\n".join(self.since)
            raise AssertionError(f"round {self.rounds}: {error}\nwhat was done:\n{done}") from error
        self.rounds += 1
        self.tell(
            f"round {self.rounds}: {len(self.since)} acts, {len(self.rig.asked)} requests, all in order"
        )

    def act(self) -> None:
        """Do one thing, and wait for a moment."""
        kind = self.random.choices(list(ACTS), list(ACTS.values()))[0]
        model = self.random.choice(MODELS)
        moment = self.random.choice((0.0, 0.02, 0.1, 0.3, 0.8))
        self.since.append(f"{kind} {model}, then {moment:g} s")
        self.acts[kind] += 1
        getattr(self, f"_{kind}")(model)
        _pass(moment)

    def _settle(self) -> None:
        for model in MODELS:
            self.rig.let_go(model)
        for one in self.rig.asked:
            one.join(BOUND + SOON)
        began = time.monotonic()
        for model in MODELS:  # those that were hit often would be left alone for minutes
            self._wish(model, "forget")
        wait_for(lambda: self.rig.condition("Degraded") is None, ORDER, "a ledger that is written again")
        self.rig.witnesses = {}  # whom a fault hit is known to nobody here
        judge(self.rig)
        self.longest = max(self.longest, time.monotonic() - began)
        ends = [one.end for one in self.rig.asked if one.end is not None]
        self.ends.update(f"{end.kind} {end.what}" if end.kind == "told" else end.kind for end in ends)
        self.rig.rest()
        self.rig.wait_ready("pin")

    # -- acts: people --------------------------------------------------------------------------------------------

    def _ask(self, model: str) -> None:
        self.rig.let_go(model)
        self.rig.asks(model)

    def _stream(self, model: str) -> None:
        self.rig.let_go(model)
        self.rig.asks(model, stream=True)

    def _crowd(self, _: str) -> None:
        for model in MODELS[1:]:
            self._ask(model)

    def _evict(self, model: str) -> None:
        self._wish(model, "evict")

    def _load(self, model: str) -> None:
        self.rig.let_go(model)
        self._wish(model, "load")

    def _wish(self, model: str, verb: str) -> None:
        self.rig.client.post(f"/api/v1/models/{model}/{verb}")

    def _edit(self, model: str) -> None:
        models = self.rig.edited(model, "--edition", str(self.random.randrange(3)))
        self.rig.use(models, memory=self.random.choice((2000, 2001)))

    # -- acts: processes -----------------------------------------------------------------------------------------

    def _kill_model(self, model: str) -> None:
        self._signal(model, signal.SIGKILL)

    def _term_model(self, model: str) -> None:
        self._signal(model, signal.SIGTERM)

    def _pause_model(self, model: str) -> None:
        pids = self.rig.processes(model)
        with suppress(ProcessLookupError, AssertionError):
            pause(pids)
        _pass(0.5)
        for pid in pids:
            with suppress(ProcessLookupError):
                go_on([pid])

    def _signal(self, model: str, number: signal.Signals) -> None:
        for pid in self.rig.processes(model):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _kill_manager(self, _: str) -> None:
        kill_manager(self.rig)
        self.rig.start()

    def _pause_manager(self, _: str) -> None:
        pause([self.rig.pid])
        _pass(self.random.choice((0.2, 1.0, 5.5)))
        go_on([self.rig.pid])

    # -- acts: what is around ------------------------------------------------------------------------------------

    def _lose_ledger(self, _: str) -> None:
        around.deleted(self.rig)

    def _hold_ledger(self, _: str) -> None:
        with around.locked(self.rig):
            _pass(1.5)

    def _break_manifest(self, _: str) -> None:
        faults = (around.folder_removed, around.folder_emptied, around.file_is_noise, around.file_is_a_pipe)
        with self.random.choice(faults)(self.rig):
            _pass(self.random.choice((0.1, 2.5)))

    def _set_clock(self, _: str) -> None:
        around.set_clock(self.rig, self.random.choice((0, 3600, -3600, 86400)))

    def _take_ports(self, _: str) -> None:
        with around.ports_taken(self.rig):
            _pass(0.5)


def _pass(seconds: float) -> None:
    """Let time go by: when the next fault comes is part of what is drawn."""
    time.sleep(seconds)


def figures(soak: Soak) -> str:
    """Return what was done and what came of it, as lines."""
    acts = ", ".join(f"{kind} {count}" for kind, count in soak.acts.most_common())
    ends = ", ".join(f"{kind} {count}" for kind, count in soak.ends.most_common())
    return (
        f"{soak.rounds} rounds, {soak.acts.total()} acts ({acts})\n"
        f"{soak.ends.total()} requests ({ends})\n"
        f"in order again after {soak.longest:.1f} s at most"
    )


def main() -> int:
    """Run as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.minutes:g} minutes", flush=True)
    os.environ["FAKE_ENGINE_LIFETIME"] = str(int(given.minutes * 60) + 900)  # the stranger has to see the end
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, Nursery("faults.zygote") as nursery:
        root = Path(folder, "rig")
        with standing(root, nursery) as rig:
            soak = Soak(rig, given.seed, lambda text: print(text, flush=True))
            try:
                soak.run(given.minutes * 60)
            except AssertionError as error:
                print(f"{error}\n\nthe log of the round:\n{rig.output.read_text()[rig.cell_began :]}")
                return 1
            finally:
                print(figures(soak), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
