"""Days on which people and programs ask models for something, written down as a trace.

A behaviour (see `behaviours.py`) is given a `Day` and asks for what it wants. Everything is drawn from generators that
are seeded by name, one for each behaviour and day: the same seed makes the same trace, on every machine, and one
behaviour more changes nothing about the others.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.simulate.layout import Speed
from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_names import Names
from reconciler.simulate.trace_order import in_order

DAY: Final = 86_400.0
HOUR: Final = 3_600.0
MINUTE: Final = 60.0


@dataclass(slots=True)
class Book:
    """The requests so far. `speeds` has every model that is asked for: what an answer takes, the next one waits for."""

    speeds: Mapping[str, Speed]
    trace: Trace = field(default_factory=Trace)
    models: Names = field(default_factory=lambda: Names("model"))
    clients: Names = field(default_factory=lambda: Names("client"))
    #: Sessions so far, for their names.
    sessions: int = 0

    def finish(self) -> Trace:
        """Return the trace, in order of time."""
        self.trace.models, self.trace.clients = self.models.names, self.clients.names
        in_order(self.trace).notes.clear()
        return self.trace


class Session:
    """One client that asks for one thing after another, each after the answer to the one before."""

    def __init__(self, book: Book, client: str, at: float) -> None:
        self._book = book
        self._client = book.clients.number(client)
        #: When the last answer was there, were no model ever loaded.
        self.now = at
        self._asked = False

    def ask(self, model: str, prompt: int, output: int, think: float = 0.0) -> None:
        """Ask for an answer, so many seconds after the last one; the first time at the session's begin."""
        book, think = self._book, round(think, 2)
        at = round(self.now + think, 2) if self._asked else round(self.now, 2)
        number = book.models.number(model)
        book.trace.add(at, number, self._client, prompt, output, think if self._asked else math.nan)
        self._asked = True
        speed = book.speeds[model]
        self.now = at + speed.fixed + prompt / speed.prompt + output / speed.output


@dataclass(frozen=True, slots=True)
class Day:
    """One day as one behaviour sees it."""

    #: Counted from 0; its midnight; the 6th and 7th of every seven are a week-end.
    number: int
    draw: random.Random
    book: Book

    @property
    def begin(self) -> float:
        return self.number * DAY

    @property
    def weekend(self) -> bool:
        return self.number % 7 >= 5

    def session(self, who: str, at: float) -> Session:
        """Return a session of a new client, which begins `at` seconds after midnight."""
        self.book.sessions += 1
        return Session(self.book, f"{who}{self.book.sessions}", self.begin + at)

    def some(self, mean: float) -> int:
        """Return how often something happens that happens `mean` times on average (Poisson)."""
        count, rest = 0, self.draw.expovariate(1.0)
        while rest < mean:
            count += 1
            rest += self.draw.expovariate(1.0)
        return count

    def about(self, median: float, spread: float, most: float = 1e6) -> float:
        """Return a quantity whose logarithm is normal: half are below `median`, two thirds within e^`spread` of it."""
        return min(most, median * math.exp(self.draw.gauss(0.0, spread)))

    def tokens(self, median: float, spread: float, most: int = 40_000) -> int:
        """Return a number of tokens, at least 1."""
        return max(1, round(self.about(median, spread, most)))

    def turns(self, mean: float, most: int = 60) -> int:
        """Return how many turns a session has, at least 1 (geometric)."""
        return min(most, 1 + int(self.draw.expovariate(1.0) * (mean - 0.5)))

    def between(self, hours: tuple[float, float]) -> float:
        """Return a time of the day in seconds."""
        return self.draw.uniform(*hours) * HOUR


#: Does on one day what it always does.
Behaviour = Callable[[Day], None]


def days(
    behaviours: Sequence[tuple[str, Behaviour]],
    speeds: Mapping[str, Speed],
    count: int,
    seed: int,
    most: int | None = None,
) -> Trace:
    """Return the trace of so many days; `most` = no more days are begun once it has so many requests."""
    book = Book(speeds)
    for number in range(count):
        for name, behave in behaviours:
            behave(Day(number, random.Random(f"{seed}/{name}/{number}"), book))  # noqa: S311 - nothing secret
        if most is not None and len(book.trace) >= most:
            break
    return book.finish()
