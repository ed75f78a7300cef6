"""Models that are called after one another: a question to a retriever is followed by one to a chat model."""

from typing import Final

#: A burst begins with a call after so long a pause, and what is called within it belongs to it; seconds.
BURST: Final = 90.0
#: A model that is called in fewer of the bursts of another one does not follow it.
_LEAST: Final = 0.2
#: Each burst counts this much less with every further one of the same model.
_FADING: Final = 0.98


class Pipelines:
    """Who is called in the bursts of whom."""

    def __init__(self) -> None:
        #: Faded number of bursts of each model, and of those in which each other one was called.
        self._bursts: dict[str, float] = {}
        self._followed: dict[str, dict[str, float]] = {}
        #: When each model was called last.
        self._called: dict[str, float] = {}
        #: Bursts that go on: who began them, when, and who has been called in them.
        self._open: list[tuple[str, float, set[str]]] = []

    def called(self, model: str, at: float) -> None:
        """Note a call."""
        last = self._called.get(model)
        self._called[model] = at
        if self._open:
            if at - self._open[0][1] > BURST:
                self._open = [burst for burst in self._open if at - burst[1] <= BURST]
            for leader, _, called in self._open:
                if leader != model and model not in called:
                    called.add(model)
                    followers = self._followed[leader]
                    followers[model] = followers.get(model, 0.0) + 1.0
        if last is None or at - last > BURST:
            self._begins(model, at)

    def _begins(self, model: str, at: float) -> None:
        self._bursts[model] = self._bursts.get(model, 0.0) * _FADING + 1.0
        followers = self._followed.get(model)
        self._followed[model] = {m: n * _FADING for m, n in followers.items()} if followers else {}
        self._open.append((model, at, set()))

    def expected(self, model: str, now: float) -> float:
        """Return the chance that a model is called next in a burst that has just begun."""
        best = 0.0
        for leader, began, called in self._open:
            left = 1.0 - (now - began) / BURST
            if left <= 0.0 or leader == model or model in called:
                continue
            # The burst that goes on tells nothing yet.
            share = self._followed[leader].get(model, 0.0) / max(1.0, self._bursts[leader] - 1.0)
            if share > _LEAST:
                best = max(best, min(1.0, share) * left)
        return best
