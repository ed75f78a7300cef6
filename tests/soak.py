"""Random loads, evictions, requests and edits on a machine with too little memory for all models at once."""

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from manager import Manager
from small_machine import SmallMachine
from soak_clients import WORDS, Answers, Client, Request
from soak_models import PRIORITIES, Layout
from soak_watch import Watcher

#: How often each kind of step is taken, relative to each other.
STEPS: Final = {
    "request": 40,
    "together": 12,
    "embed": 10,
    "leave": 8,
    "load": 10,
    "evict": 12,
    "priority": 6,
    "hopeless": 2,
}
#: Seconds within which everything that was asked for is done.
CALM: Final = 60.0


class Soak:
    """One run: a manager and its models in `machine`; all randomness comes from `seed`."""

    def __init__(self, machine: SmallMachine, manager: Manager, layout: Layout, seed: int) -> None:
        self.machine, self.manager, self.layout = machine, manager, layout
        self.random = random.Random(seed)
        self.answers = Answers(layout.hopeless)
        self.steps: Counter[str] = Counter()
        self.watcher = Watcher(machine, manager)
        self.seconds = 0.0
        #: Loads and evictions that people asked for and were refused.
        self.refused_wishes: list[str] = []

    def run(self, steps: int, tell: Callable[[int], None] = lambda _: None) -> None:
        """Take the steps, then wait until nothing is left to do."""
        self.layout.forget_pages()
        self.save()
        self.manager.start()
        self.manager.wait_ready(*self.layout.pinned)
        began = time.monotonic()
        with self.watcher:
            for number in range(steps):
                kind = self.random.choices(list(STEPS), list(STEPS.values()))[0]
                self.steps[kind] += 1
                getattr(self, f"_{kind}")()
                tell(number + 1)
            self.manager.wait_calm(CALM)
        self.seconds = time.monotonic() - began

    def save(self) -> None:
        """Write the manifest: the machine says itself how much memory it has."""
        machine = {"memory": "auto", "reserve": f"{self.layout.reserve}MiB"}
        self.manager.write(self.layout.entries(), machine=machine)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _request(self) -> None:
        self._ask(self._chat(self.random.choice(self.layout.free)))

    def _together(self) -> None:
        """Several at once, for models that cannot all stand beside each other."""
        count = self.random.randint(2, 4)
        self._ask(*(self._chat(self.random.choice(self.layout.free)) for _ in range(count)))

    def _embed(self) -> None:
        self._ask(Request(self.random.choice(self.layout.pinned), "embeddings", prompt=WORDS))

    def _leave(self) -> None:
        """A client that does not wait for its answer."""
        model = self.random.choice(self.layout.free)
        leaves = self.random.uniform(0.05, 1.5)
        self._ask(Request(model, "stream", tokens=200, leaves=leaves))

    def _hopeless(self) -> None:
        self._ask(Request(self.layout.hopeless))

    def _load(self) -> None:
        self._control(self.random.choice(self.layout.free), "load")

    def _evict(self) -> None:
        self._control(self.random.choice(self.layout.free), "evict")

    def _priority(self) -> None:
        self.layout.reprioritise(self.random.choice(self.layout.free), self.random.choice(list(PRIORITIES)))
        self.save()

    # -- how ------------------------------------------------------------------------------------------------------

    def _chat(self, model: str) -> Request:
        kind = self.random.choice(["chat", "stream"])
        prompt = WORDS * self.random.choice([0, 0, 0, 1]) + "hi"
        return Request(model, kind, prompt, self.random.randint(1, 2))

    def _ask(self, *requests: Request) -> None:
        clients = [Client(self.manager, request) for request in requests]
        self.answers.all += [client.finish(CALM + 10).answer for client in clients]

    def _control(self, model: str, verb: str) -> None:
        answer = self.manager.client.post(f"/api/v1/models/{model}/{verb}")
        if answer.status_code != 202:
            self.refused_wishes.append(f"{verb} {model}: {answer.status_code} {answer.text}")

    # -- what came of it --------------------------------------------------------------------------------------------

    def count(self, event: str) -> int:
        """Return how many lines of this kind the manager logged."""
        return len(self.manager.log(event))

    @property
    def seconds_loading(self) -> float:
        """Seconds of all loads together, as the manager timed them."""
        return sum(float(line["seconds"]) for line in self.manager.log("loaded"))

    @property
    def faults(self) -> list[str]:
        """What must not have happened."""
        found = self.answers.faults + self.refused_wishes
        if self.machine.kills:
            found.append(f"the kernel killed {self.machine.kills} processes for want of memory")
        if self.watcher.most_needed > self.layout.limit << 20:
            found.append(
                f"{self.watcher.most_needed} bytes were needed at once: weights were read again and again"
            )
        for event in ("load failed", "model died", "memory did not come back in time"):
            found += [f"{line}" for line in self.manager.log(event)]
        return found
