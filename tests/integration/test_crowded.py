"""A model in use whose room somebody else waits for: nothing is tried in vain, and nobody looks all the time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from manager import SOON, Asking, Manager
from support import wait_for


@contextmanager
def closed_loop(manager: Manager, model: str) -> Iterator[list[int]]:
    """Three clients that ask again as soon as they are answered, so that it is idle for hardly a moment; the statuses
    so far.
    """
    over = threading.Event()
    answers: list[int] = []

    def ask() -> None:
        while not over.is_set():
            answers.append(manager.ask(model).status_code)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        over.set()
        for thread in threads:
            thread.join()


def while_it_waits(manager: Manager, answers: list[int], enough: int) -> tuple[int, float, int]:
    """Return the looks at the machine, the seconds and the answers until there were `enough`, or nobody waits now."""
    began, first, before = time.monotonic(), manager.status()["observation"], len(answers)
    counted = (0, 0.0, 0)

    def over() -> bool:
        nonlocal counted
        time.sleep(manager.PAUSE)
        looks = manager.status()["observation"] - first
        if manager.steps() != ["load used", "loaded used"]:
            return True
        counted = looks, time.monotonic() - began, len(answers) - before
        return counted[2] >= enough

    wait_for(over, SOON, "many requests, or the other's turn")
    return counted


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
        wait_for(lambda: manager.model("next")["verdict"]["reason"] == "VictimsBusy", SOON, "that it waits")
        looks, seconds, served = while_it_waits(manager, answers, 80)
    assert served > 5
    assert looks <= seconds * 10 + 5, "each request's end had the machine looked at"
    assert asked.status() == 200
    assert set(answers) == {200}
    assert manager.log("given up") == []
    assert manager.steps()[:4] == ["load used", "loaded used", "evict used", "evicted used"]
