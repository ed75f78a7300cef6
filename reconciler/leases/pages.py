"""The pages of all models and the gates they pass: who needs what. Who gets it is the scheduler's business."""

from collections.abc import Mapping
from typing import Final

from reconciler.leases.page import UNBOUNDED, Gate, Page
from reconciler.leases.types import Admission

FREE: Final = Admission()


class Pages:
    """One page for each model, and the gates."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.gates: dict[str, Gate] = {}
        self._admissions: dict[str, Admission] = {}

    def page(self, model: str) -> Page:
        """Return the page of a model, a new one if need be."""
        page = self.pages.get(model)
        if page is None:
            page = self.pages[model] = Page(model)
            self._admit(page)
        return page

    def limit_gates(self, limits: Mapping[str, int]) -> bool:
        """Set the gates there are and how many models each lets in; return whether that changes anything.

        Raises `ValueError` for a limit below one.
        """
        if any(limit < 1 for limit in limits.values()):
            raise ValueError(f"a gate that lets nobody in: {dict(sorted(limits.items()))}")
        if limits == {gate.name: gate.limit for gate in self.gates.values()}:
            return False
        self.gates = {name: self.gates.get(name) or Gate(name, limits[name]) for name in sorted(limits)}
        for gate in self.gates.values():
            gate.limit = limits[gate.name]
        for page in self.pages.values():
            self._admit(page)
        return True

    def assign(self, admissions: Mapping[str, Admission]) -> bool:
        """Set what the requests of each model need, of a model not named nothing; return whether that is new."""
        if admissions == self._admissions:
            return False
        self._admissions = dict(admissions)
        for page in self.pages.values():
            self._admit(page)
        return True

    def _admit(self, page: Page) -> None:
        wanted = self._admissions.get(page.name, FREE)
        page.concurrency = wanted.concurrency or UNBOUNDED
        gates = tuple(self.gates[name] for name in sorted(set(wanted.gates)) if name in self.gates)
        if page.active:  # who computes goes on, also where the gate is full by that
            for gate in page.gates:
                gate.inside.discard(page.name)
            for gate in gates:
                gate.inside.add(page.name)
        page.gates = gates
