"""The clients of a simulation: requests come, wait at the doors of models, are served, and their sessions go on."""

from array import array
from collections.abc import Callable
from math import isnan, nan
from typing import Final

from reconciler.core.habits import Habits
from reconciler.leases import Lease, Ticket
from reconciler.leases.page import Page
from reconciler.leases.record import REFUSED
from reconciler.simulate.clock import Clock
from reconciler.simulate.doors import Doors, Told
from reconciler.simulate.layout import Layout
from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_tokens import assumed

#: What became of a request, by number; the others are the reasons it was refused for, in order of appearance.
PENDING: Final = 0
SERVED: Final = 1
UNKNOWN_MODEL: Final = "unknown_model"
#: Refused since their model can never be loaded: that is no wait for a load.
BEYOND_WAITING: Final = frozenset({"never_fits", "not_startable", "insufficient_memory"})


class Crowd:
    """All requests of a trace. Columns by row, like those of the trace."""

    def __init__(self, layout: Layout, trace: Trace, doors: Doors, clock: Clock, habits: Habits) -> None:
        self._trace, self._doors, self._clock, self._habits = assumed(trace), doors, clock, habits
        count = len(trace)
        #: When each came; seconds it waited for a place, and of them those in which its model took no requests.
        self.came = array("d", [nan]) * count
        self.waited = array("d", [0.0]) * count
        self.cold = array("d", [nan]) * count
        self.served = array("d", [0.0]) * count
        self.outcome = bytearray(count)
        self.outcomes: list[str] = ["pending", "served"]
        self.left = count
        #: The next row of the same session; -1 = none.
        self._next = array("l", [-1]) * count
        #: Rows that come at their own time, in order.
        self.opens = self._sessions()
        self._pages: list[Page | None] = []
        self._urgency: list[int] = []
        self._speed: list[tuple[float, float, float]] = []
        self._timeouts: list[float] = []
        self._enrol(layout)
        #: Told of each request that comes: the row, the model, and whether it has to be loaded first.
        self.on_arrival: Callable[[int, str, bool], None] = lambda row, model, cold: None

    def _sessions(self) -> "array[int]":
        """Return the rows that come at their own time, in order; the others follow the one before of their client."""
        trace, last = self._trace, dict[int, int]()
        opens = array("l")
        for row, client in enumerate(trace.client):
            before = last.get(client)
            if before is None or isnan(trace.think[row]):
                opens.append(row)
            else:
                self._next[before] = row
            last[client] = row
        return opens

    def _enrol(self, layout: Layout) -> None:
        known = {spec.name for spec in layout.manifest.models}
        for name in self._trace.models:
            model = layout.routes.get(name, name)
            self._pages.append(self._doors.page(model) if model in known else None)
            self._urgency.append(layout.urgency.get(model, 500))
            speed = layout.speeds.get(model)
            self._speed.append(
                (speed.fixed, 1.0 / speed.prompt, 1.0 / speed.output) if speed else (0.0, 0.0, 0.0)
            )
            limits = layout.limits.get(model)
            self._timeouts.append(limits.timeout if limits else 120.0)

    def come(self, row: int) -> None:
        """Let a request come now."""
        trace, clock = self._trace, self._clock
        number = trace.model[row]
        page = self._pages[number]
        self.came[row] = clock.now
        if page is None:
            self._over(row, UNKNOWN_MODEL)
            return
        client = trace.clients[trace.client[row]]
        self._habits.arrived(page.name, clock.now)
        lease = self._doors.enter(page, self._urgency[number], client)
        if lease is not None:
            self.on_arrival(row, page.name, False)
            self._serve(row, page, lease)
            return
        self.on_arrival(row, page.name, page.serves_at is None)
        if page.serves_at is None:
            self.cold[row] = 0.0
        if self._doors.is_full(page, client):
            self._habits.ended(page.name, clock.now)
            self._over(row, "queue_full")
            return
        self._wait(row, page, self._doors.line_up(page, self._urgency[number], client))

    def _wait(self, row: int, page: Page, ticket: Ticket) -> None:
        def told() -> None:
            if ticket.lease is not None:
                self._serve(row, page, ticket.lease)
            elif ticket.refusal is not None:
                self._gives_up(row, page, ticket.refusal.code)

        if ticket.lease is not None or ticket.refusal is not None:
            told()
            return
        ticket.settled = Told(told)
        limit = self._timeouts[self._trace.model[row]]
        self._clock.at(self._clock.now + limit, lambda: self._time_over(row, page, ticket))

    def _time_over(self, row: int, page: Page, ticket: Ticket) -> None:
        if ticket.lease is None and ticket.refusal is None and not self.outcome[row]:
            self._doors.withdraw(page, ticket, f"{REFUSED}queue_timeout")
            self._gives_up(row, page, "queue_timeout")

    def _gives_up(self, row: int, page: Page, why: str) -> None:
        self.waited[row] = self._clock.now - self.came[row]
        if why in BEYOND_WAITING:
            self.cold[row] = nan
        elif not isnan(self.cold[row]):
            self.cold[row] = self.waited[row]
        self._habits.ended(page.name, self._clock.now)
        self._over(row, why)

    def _serve(self, row: int, page: Page, lease: Lease) -> None:
        trace = self._trace
        self.waited[row] = lease.waited
        if lease.cold > 0.0:
            self.cold[row] = lease.cold
        seconds = trace.seconds[row]
        if isnan(seconds):
            fixed, prompt, output = self._speed[trace.model[row]]
            seconds = fixed + trace.prompt_tokens[row] * prompt + trace.output_tokens[row] * output
        self._clock.end(self._clock.now + seconds, row, page, lease)
        lease.cut.on_set(lambda: self._cut(row, page, lease))

    def done(self, row: int, page: Page, lease: Lease) -> None:
        """Let a request have been answered."""
        if self.outcome[row]:
            return  # it was cut
        self.served[row] = self._clock.now - lease.since
        self.outcome[row] = SERVED
        self.left -= 1
        self._habits.ended(page.name, self._clock.now)
        if lease.cold > 0.0:
            self._habits.waited(page.name, lease.cold, lease.since)
        self._doors.leave(page, lease)
        self._go_on(row)

    def _cut(self, row: int, page: Page, lease: Lease) -> None:
        if not self.outcome[row]:
            self.served[row] = self._clock.now - lease.since
            self._habits.ended(page.name, self._clock.now)
            self._over(row, "cut")
            self._doors.leave(page, lease)

    def _over(self, row: int, why: str) -> None:
        if why not in self.outcomes:
            self.outcomes.append(why)
        self.outcome[row] = self.outcomes.index(why)
        self.left -= 1
        self._go_on(row)

    def _go_on(self, row: int) -> None:
        """Let the next request of the session come, once its client has thought."""
        following = self._next[row]
        if following >= 0:
            self._clock.come(self._clock.now + self._trace.think[following], following)
