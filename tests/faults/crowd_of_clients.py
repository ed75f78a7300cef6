"""Clients that ask one after the other for as long as they are let: each request is on record."""

import itertools
import threading
from collections import Counter
from typing import Self

from faults.clients import Asked
from faults.rig import Rig


class Crowd:
    """Some clients of a rig; every third request is a stream."""

    #: Seconds a client waits after it was refused or told of an error.
    AGAIN = 0.02

    def __init__(self, rig: Rig, models: list[str]) -> None:
        self._rig = rig
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(m,), daemon=True) for m in models]

    def _ask(self, model: str) -> None:
        for number in itertools.count():
            if self._over.is_set():
                return
            one = Asked(self._rig.url, model, stream=number % 3 == 0)
            self._rig.asked.append(one)
            if one.ended().kind != "answered":
                self._over.wait(self.AGAIN)

    def ends(self) -> Counter[str]:
        """Return how often requests ended in each way so far."""
        ends = [one.end for one in list(self._rig.asked) if one.end is not None]
        return Counter(f"{end.kind} {end.what}".strip() if end.kind == "told" else end.kind for end in ends)

    def answered(self) -> int:
        """Return how many requests were answered so far."""
        return self.ends()["answered"]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
