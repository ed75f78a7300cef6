"""The manager dies before or after each write to its ledger, start of a process and signal, and is started again.

What is written before a write is what was written after the one before it, so most of the cells "before" run on demand:
those where something was done in between run always.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from faults.acts import kill_manager, starts_after_death
from faults.cells import Cell
from faults.rig import Rig
from faults.states import asleep
from faults.wounds import When, Wound
from manager import SOON
from support import wait_for


@dataclass(frozen=True)
class Story:
    """Something that is done, with the writes that it takes."""

    #: Part of the name of its cells.
    name: str
    #: Prepares it, and returns what begins it; the wound is armed in between.
    begin: Callable[[Rig], Callable[[], object]]
    model: str
    #: Point and count, a word for it, and the states of the model in the next run if the manager dies (before, after).
    points: tuple[tuple[str, int, str, str, str], ...]
    sees: str
    #: All but one of its cells run on demand: they take seconds.
    long: bool = False


def _load(rig: Rig) -> Callable[[], object]:
    return lambda: rig.asks("chat")


def _evict(rig: Rig) -> Callable[[], object]:
    rig.loaded("chat")
    return lambda: rig.evict("chat")


def _kill(rig: Rig) -> Callable[[], object]:
    rig.loaded("deaf")
    return lambda: rig.evict("deaf")


def _sleep(rig: Rig) -> Callable[[], object]:
    """Have its request held, so that it cannot go to sleep before the wound is armed."""
    rig.hold("naps")
    rig.asks("naps")
    wait_for(lambda: rig.model("naps")["active"], SOON, "a request that is served")
    rig.wait_calm()
    return lambda: rig.let_go("naps")


def _wake(rig: Rig) -> Callable[[], object]:
    asleep(rig)
    rig.wait_calm()
    return lambda: rig.asks("naps")


def _start(rig: Rig) -> Callable[[], object]:
    rig.loaded("chat")
    kill_manager(rig)
    return rig.begin_to_serve


def _stop(rig: Rig) -> Callable[[], object]:
    rig.loaded("chat")
    rig.witnesses.clear()  # both are to go, and whichever was not gone yet serves on

    def ask() -> None:
        assert rig.process is not None
        rig.process.send_signal(15)

    return ask


WHEN: Final[tuple[When, When]] = ("before", "after")
#: Where any state is right: it depends on what came first.
ANY: Final = "ready cold asleep"

STORIES: Final = (
    Story(
        "loading",
        _load,
        "chat",
        (
            ("add_event", 1, "its event", "cold", "cold"),
            ("put_launch", 1, "the record of a launch to come", "cold", "cold"),
            ("spawn", 1, "the start of the process", "cold", "cold"),
            ("put_launch", 2, "the record of its pid", "cold", "cold"),
            ("put_launch", 3, "the record that it is ready", "cold", "ready"),
            ("put_launch", 4, "the record of what it holds", "ready", "ready"),
            ("add_event", 2, "the event that it is loaded", "ready", "ready"),
            ("put_entry", 1, "what is known of its size", ANY, ANY),
            ("add_load", 1, "the load's record", "ready", "ready"),
        ),
        "The request breaks, or was answered; the process is kept if it was ready, else ended.",
    ),
    Story(
        "evicting",
        _evict,
        "chat",
        (
            ("add_event", 1, "its event", "ready", "cold"),
            ("put_launch", 1, "the record that it is being stopped", "cold", "cold"),
            ("SIGTERM", 1, "SIGTERM", "cold", "cold"),
            ("drop_launch", 1, "the end of its record", "cold", "cold"),
            ("add_event", 2, "the event that it is gone", "cold", "cold"),
            ("add_eviction", 1, "the eviction's record", "cold", "cold"),
        ),
        "The model goes, as it was asked to, unless that was not even begun; it loads for the next request.",
    ),
    Story(
        "killing",
        _kill,
        "deaf",
        (
            ("SIGTERM", 2, "the second SIGTERM to a deaf model", "cold", "cold"),
            ("SIGKILL", 1, "SIGKILL to a deaf model", "cold", "cold"),
            ("drop_launch", 1, "the end of its record", "cold", "cold"),
        ),
        "The model goes, as it was asked to; no other waits for that.",
        long=True,
    ),
    Story(
        "falling-asleep",
        _sleep,
        "naps",
        (
            ("add_event", 1, "its event", "ready asleep", "ready asleep"),
            ("put_launch", 1, "the record that it goes to sleep", "ready asleep", "cold"),
            ("put_launch", 2, "the record that it sleeps", "cold", "asleep"),
            ("add_event", 2, "the event that it sleeps", "asleep", "asleep"),
            ("add_eviction", 1, "the eviction's record", "asleep", "asleep"),
        ),
        "The model sleeps, or, half asleep, is ended; either serves the next request.",
    ),
    Story(
        "waking",
        _wake,
        "naps",
        (
            ("add_event", 1, "its event", "asleep", "asleep"),
            ("put_launch", 1, "the record that it is being woken", "asleep", "cold"),
            ("wanted_again", 1, "the regret of its sleep", ANY, ANY),
            ("put_launch", 2, "the record that it is awake", "cold", "ready asleep"),
        ),
        "The request breaks, or was answered; the model sleeps, or, half awake, is ended.",
    ),
    Story(
        "starting",
        _start,
        "chat",
        (
            ("generation", 1, "the count of manifests", "ready", "ready"),
            ("launches", 1, "the reading of the launches", "ready", "ready"),
            ("add_event", 2, "the first event of an adopted model", "ready", "ready"),
            ("put_launch", 1, "the first record of an adopted model", "ready", "ready"),
        ),
        "The models serve on under the third manager, as the same processes.",
    ),
    Story(
        "ending",
        _stop,
        "chat",
        (
            ("add_event", 1, "the first eviction's event", "ready", "ready"),
            ("put_launch", 1, "the record that the first is being stopped", ANY, ANY),
            ("SIGTERM", 1, "the first SIGTERM", ANY, ANY),
            ("drop_launch", 1, "the end of the first record", ANY, ANY),
            ("drop_launch", 2, "the end of the last record", "cold", "cold"),
            ("add_eviction", 1, "the first eviction's record", "cold", "cold"),
        ),
        "What was not stopped yet serves on under the next manager; a pinned model is loaded again.",
    ),
)
#: Between the write before and this one something is done that no record tells.
_DONE_BEFORE: Final = frozenset(
    {("put_launch", 2), ("put_launch", 3), ("drop_launch", 1), ("spawn", 1), ("SIGTERM", 1), ("add_event", 1)}
)


def _dies(story: Story, point: str, nth: int, when: When, after: str) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        begin = story.begin(rig)
        rig.arm(Wound(point, nth, when))
        begin()
        starts_after_death(rig)
        rig.let_go(story.model)
        rig.wait_calm()
        wait_for(
            lambda: rig.model(story.model)["state"] in after.split(),
            SOON,
            f"{story.model} in the next run: {after}",
        )
        rig.asks(story.model).answered()

    return run


def _on_demand(story: Story, point: str, nth: int, when: When) -> bool:
    if story.long:
        return (point, nth, when) != (*story.points[0][:2], "after")
    return when == "before" and (point, nth) not in _DONE_BEFORE


def _cells() -> Iterator[Cell]:
    for story in STORIES:
        for point, nth, words, *after in story.points:
            for when, then in zip(WHEN, after, strict=True):
                yield Cell(
                    f"manager-dies-{story.name}",
                    f"{when} {words}",
                    story.sees,
                    _dies(story, point, nth, when, then),
                    slow=_on_demand(story, point, nth, when),
                )


CELLS: Final = tuple(_cells())
