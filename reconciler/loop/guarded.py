"""A fault in a probe makes its figures unknown; it does not end the loop that keeps the models serving."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog

from reconciler.core.memory import Memory
from reconciler.memory.probe import Held, MachineProbe

log = structlog.get_logger("reconciler.loop")
T = TypeVar("T")


class Guarded:
    """A `MachineProbe` around another one that raises nothing, even where the other one breaks that promise."""

    def __init__(self, probe: MachineProbe) -> None:
        self._probe = probe
        self.pace = probe.pace
        #: What went wrong at the last call of each method, as a sentence; "" = nothing.
        self._wrong: dict[str, str] = {}

    def read(self, now: float) -> Memory:
        """Return the memory of the machine; unknown, with the reason, if the probe fails."""
        memory = self._try("read", lambda: self._probe.read(now))
        if memory is None:
            wrong = self._wrong["read"]
            memory = Memory(None, None, wrong, problems=(wrong,))
        of_models = self._wrong.get("held", "")
        return replace(memory, problems=(*memory.problems, of_models)) if of_models else memory

    def glance(self, now: float) -> int | None:
        """Return the bytes available; unknown if the probe fails."""
        return self._try("glance", lambda: self._probe.glance(now))

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, *, walk: Collection[str] = ()
    ) -> Mapping[str, Held]:
        """Return what each tree holds; unknown for every tree the probe says nothing of, or if it fails."""
        found = self._try("held", lambda: self._probe.held(trees, now, walk=walk))
        unknown = Held(None, None)
        return {key: unknown if found is None else found.get(key, unknown) for key in sorted(trees)}

    def _try(self, method: str, call: Callable[[], T]) -> T | None:
        """Return what `call` returns, or None if it raises. Said in the log when it begins and when it ends."""
        before, self._wrong[method] = self._wrong.get(method, ""), ""
        try:
            result = call()
        except (
            Exception
        ) as error:  # a fault of ours or of the system, in code that must not be able to stop models
            wrong = f"the memory probe failed ({method}): {type(error).__name__}: {error}"
            self._wrong[method] = wrong
            if wrong != before:
                log.exception("a memory probe failed: what it would tell is unknown", probe=method)
            return None
        if before:
            log.info("the memory probe works again", probe=method)
        return result
