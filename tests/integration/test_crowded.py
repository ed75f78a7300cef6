"""A model in use whose room somebody else waits for: nothing is tried in vain, and nobody looks all the time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from manager import SOON, Asking, Manager
from support import wait_for


@contextmanager
def closed_loop(manager: Manager, model: str) -> Iterator[list[int]]:
    """A client that asks again as soon as it is answered; the statuses so far."""
    over = threading.Event()
    answers: list[int] = []

    def ask() -> None:
        while not over.is_set():
            answers.append(manager.ask(model).status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


def test_a_model_in_use_is_neither_stopped_in_vain_nor_looked_at_all_the_time(manager: Manager) -> None:
    manager.write(
        {
            "used": manager.fake("used", "--think", "0.02", size=600),
            "next": manager.fake("next", size=600),
        }
    )
    manager.start()
    assert manager.ask("used").status_code == 200
    with closed_loop(manager, "used") as answers:
        asked = Asking(manager, "next")
        manager.wait_model("next", waiting=1)
        began, first, served = time.monotonic(), manager.status()["observation"], len(answers)
        wait_for(
            lambda: len(answers) >= served + 80 or asked.answer, SOON, "many requests, or the other's turn"
        )
        looks, seconds = manager.status()["observation"] - first, time.monotonic() - began
        reason, steps = manager.model("next")["verdict"]["reason"], manager.steps()
        if asked.answer is None and steps == ["load used", "loaded used"]:
            assert reason == "VictimsBusy"
            assert looks <= seconds * 10 + 5, "each request's end had the machine looked at"
    assert asked.status() == 200
    assert set(answers) == {200}
    assert manager.log("given up") == []
    assert manager.steps()[:4] == ["load used", "loaded used", "evict used", "evicted used"]
