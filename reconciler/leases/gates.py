"""Gates: how many models may compute at once among those that pass one. Memory bandwidth is what they protect.

A gate counts models, not requests: an engine reads its weights once for all requests it computes side by side.
"""

from typing import Final

from reconciler.leases.page import Gate, Page

#: What a request lacks if its model already has as many as it may have at once.
PLACE: Final = "place"
#: Seconds after which a request that still waits keeps free what it needs until it has all of it.
RESERVE_SECONDS: Final = 10.0


class Claims:
    """What the requests looked at so far, in order of rank, keep from those that come after them."""

    __slots__ = ("_full", "_now", "_reserved")

    def __init__(self, now: float) -> None:
        self._now = now
        #: Gates that somebody with an earlier rank waits for.
        self._full: set[str] = set()
        #: Free passages kept for models that waited long; for each gate.
        self._reserved: dict[str, int] = {}

    def obstacle(self, page: Page) -> str | None:
        """Return what keeps the next request of a model from being served; None = nothing."""
        if len(page.active) >= page.concurrency:
            return PLACE
        for gate in page.gates:
            # A model inside needs no further room, but must let out whom it has when another one waits before it.
            if gate.name in self._full if page.active else self._lacks_room(gate):
                return f"gate {gate.name}"
        return None

    def hold_back(self, page: Page) -> None:
        """Note that the first request of the model cannot be served, and what it claims by that.

        It claims the gates it lacks, and those only, until it has waited long: else a model that passes two gates
        could for ever find the one free when the other is not. A gate that becomes free together with one it
        lacks (whoever is inside the one is inside the other, too) needs no claim: a light model may go on behind
        `llm` while a heavy one, in both, keeps another heavy one waiting.
        """
        if page.active:
            return  # its gates are its own already
        lacking = [gate for gate in page.gates if self._lacks_room(gate)]
        aged = self._now - page.first().since >= RESERVE_SECONDS
        for gate in page.gates:
            if any(other.inside and other.inside < gate.inside for other in lacking):
                continue
            if gate in lacking:
                self._full.add(gate.name)
            elif aged:
                self._reserved[gate.name] = self._reserved.get(gate.name, 0) + 1

    def _lacks_room(self, gate: Gate) -> bool:
        return len(gate.inside) + self._reserved.get(gate.name, 0) >= gate.limit
