"""What becomes of models that were loaded before anybody asked: each is used, in vain, or broken off, once."""

from dataclasses import replace

import pytest

from reconciler.board import PrewarmCount
from reconciler.core.machine import Evicting, Exited, Failed, Loading, Ready
from reconciler.core.prewarms import BACKOFF_FIRST, VAIN_AFTER
from reconciler.core.types import Chance, Demand, Evict, Load, Observation, Prewarm, Reason, Swap
from reconciler.host import Process
from reconciler.loop.hands import Outcome
from reconciler.loop.launches import Launch
from reconciler.loop.outlook import BROKEN_OFF, Outlook
from reconciler.loop.prewarming import Prewarming
from worlds import NOW, manifest, model, running, waiting, world

pytestmark = pytest.mark.anyio
AHEAD = Load("a", "a-v1", 1, Reason.PREWARM)
ASKED = Load("a", "a-v1", 1, Reason.DEMANDED)


class Pages:
    """A journal that keeps what it is told of loads in advance."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    async def prewarm_used(self, model: str, after: float) -> None:
        self.told.append(("used", model, after))

    async def prewarm_in_vain(self, model: str, after: float, gone: bool, again_in: float) -> None:
        self.told.append(("in vain", model, after, gone, again_in))


def launch() -> Launch:
    made = Launch("id", "a", "a-v1", None, Process(7, 1), 18100, NOW)
    made.served_before = 3
    return made


def after(step: Load, outcome: Outcome, pages: Pages | None = None) -> Prewarming:
    """Return what is known once a load was begun at `NOW` and ended so a second later."""
    made = Prewarming(pages or Pages())  # type: ignore[arg-type]
    made.begun(step, NOW)
    made.closed(Loading(step, NOW, NOW + 9), outcome, NOW + 1)
    return made


def look(*demands: Demand, there: bool = True) -> Observation:
    return world(*([running("a", 1, pid=7)] if there else []), demands=demands).observation


@pytest.mark.parametrize(
    ("outcome", "counted", "again_after"),
    [
        (Outcome(Failed(None), 0.0), PrewarmCount("a", begun=1, broken_off=1), None),
        (
            Outcome(Failed(None), 0.0, "exit 1"),
            PrewarmCount("a", begun=1, in_vain=1),
            NOW + 1 + BACKOFF_FIRST,
        ),
        (Outcome(Ready(), 1.0, launch=launch()), PrewarmCount("a", begun=1), None),
    ],
)
async def test_how_the_load_itself_ends(
    outcome: Outcome, counted: PrewarmCount, again_after: float | None
) -> None:
    made = after(AHEAD, outcome)
    assert made.figures.models == (counted,)
    assert made.known.begun == (NOW,)
    assert dict(made.known.until).get("a") == again_after


@pytest.mark.parametrize(
    "demand",
    [
        Demand("a", active=1),
        Demand("a", waiting=1, oldest=NOW),
        Demand("a", gated=1),
        Demand("a", held=1),
        Demand("a", jobs=1),
        Demand("a", wanted=True),
    ],
)
async def test_whoever_asks_uses_it_once(demand: Demand) -> None:
    pages = Pages()
    made = after(AHEAD, Outcome(Ready(), 1.0, launch=launch()), pages)
    await made.look(look(Demand("b", active=1)), NOW + 5)
    assert not made.figures.models[0].used
    await made.look(look(demand), NOW + 11)
    await made.look(look(demand), NOW + 12)
    await made.look(look(there=False), NOW + 13)
    assert pages.told == [("used", "a", 10.0)]
    assert made.figures.models == (PrewarmCount("a", begun=1, used=1),)
    assert (made.figures.precision, made.figures.recall) == (1.0, 1.0)


async def test_a_request_between_two_looks_counts_also_if_the_model_went_meanwhile() -> None:
    pages, served = Pages(), launch()
    made = after(AHEAD, Outcome(Ready(), 1.0, launch=served), pages)
    served.served = 1
    await made.look(look(there=False), NOW + 2)
    assert pages.told == [("used", "a", 1.0)]


async def test_what_goes_unused_was_in_vain_and_waits_longer_each_time() -> None:
    pages = Pages()
    made = after(AHEAD, Outcome(Ready(), 1.0, launch=launch()), pages)
    await made.look(look(there=False), NOW + 61)
    assert made.known.until == (("a", NOW + 61 + BACKOFF_FIRST),)
    made.begun(AHEAD, NOW + 4000)
    made.closed(Loading(AHEAD, NOW + 4000, NOW + 4009), Outcome(Ready(), 1.0, launch=launch()), NOW + 4001)
    await made.look(look(there=False), NOW + 4101)
    assert pages.told == [
        ("in vain", "a", 60.0, True, BACKOFF_FIRST),
        ("in vain", "a", 100.0, True, 2 * BACKOFF_FIRST),
    ]
    assert made.figures.models == (PrewarmCount("a", begun=2, in_vain=2),)
    assert made.figures.precision == 0.0


async def test_what_stays_unused_for_long_was_in_vain_although_it_is_there() -> None:
    pages = Pages()
    made = after(AHEAD, Outcome(Ready(), 1.0, launch=launch()), pages)
    await made.look(look(), NOW + VAIN_AFTER)
    assert pages.told == []
    await made.look(look(), NOW + 1 + VAIN_AFTER)
    assert pages.told == [("in vain", "a", VAIN_AFTER, False, BACKOFF_FIRST)]


async def test_a_process_that_sleeps_is_gone_and_another_one_is_not_it() -> None:
    for seen in (
        running("a", 1, pid=7, ready=False, asleep=True),
        running("a", 1, pid=8),
    ):
        made = after(AHEAD, Outcome(Ready(), 1.0, launch=launch()))
        await made.look(world(seen).observation, NOW + 2)
        assert made.figures.models == (PrewarmCount("a", begun=1, in_vain=1),)


async def test_loads_that_somebody_waited_for_are_what_was_not_foreseen() -> None:
    made = after(ASKED, Outcome(Ready(), 1.0, launch=launch()))
    made.closed(Loading(ASKED, NOW, NOW + 9), Outcome(Failed(None), 0.0, "exit 1"), NOW + 1)
    made.closed(Loading(replace(ASKED, reason=Reason.WARM), NOW, NOW), Outcome(Ready(), 1.0), NOW + 1)
    assert (made.figures.models, made.figures.waited_for) == ((), 1)
    assert made.figures.recall == 0.0
    assert made.known.begun == ()


@pytest.mark.parametrize(
    ("reason", "demands", "broken"),
    [
        (Reason.PREWARM, [waiting("b")], True),
        (Reason.PREWARM, [Demand("b", wanted=True)], True),
        (Reason.PREWARM, [waiting("b"), waiting("a")], False),  # it is waited for by now
        (Reason.PREWARM, [waiting("a")], False),
        (Reason.PREWARM, [Demand("b", active=3, gated=1)], False),  # served, or let wait, in memory
        (Reason.DEMANDED, [waiting("b")], False),
    ],
)
async def test_who_breaks_off_what_nobody_waits_for(
    reason: Reason, demands: list[Demand], broken: bool
) -> None:
    outlook = Outlook(Pages(), lambda models, now: (), once=False)  # type: ignore[arg-type]
    loading = Loading(replace(AHEAD, reason=reason), NOW, NOW + 9)
    assert outlook.breaks_off(loading, world(demands=demands)) == (BROKEN_OFF if broken else "")


async def test_the_world_has_the_chances_of_the_models_of_the_manifest_and_who_took_turns() -> None:
    def chances(models: object, now: float) -> tuple[Chance, ...]:
        return tuple(Chance(name, now / NOW) for name in models)  # type: ignore[attr-defined]

    outlook = Outlook(Pages(), chances, once=False)  # type: ignore[arg-type]
    gone = Evict("x", 1, 1, 1, Reason.MAKE_ROOM, for_model="b")
    outlook.closed(Evicting(gone, NOW - 2, NOW), Outcome(Exited(None), 1.0), NOW - 1)
    outlook.closed(Evicting(replace(gone, model="y"), NOW - 2, NOW), Outcome(Failed(None), 1.0), NOW - 1)
    outlook.begun(AHEAD, NOW)
    made = outlook.world(manifest(model("b"), model("a")), look(), (), NOW)
    assert made.chances == (Chance("a", 1.0), Chance("b", 1.0))
    assert made.swaps == (Swap("x", "b", NOW - 1),)
    assert made.prewarms.begun == (NOW,)


async def test_a_loop_that_is_to_end_loads_nothing_in_advance() -> None:
    wanted = replace(manifest(model("a")), prewarm=Prewarm.FULL)
    for once, mode in ((True, Prewarm.OFF), (False, Prewarm.FULL)):
        outlook = Outlook(Pages(), lambda models, now: (), once=once)  # type: ignore[arg-type]
        assert outlook.manifest(wanted).prewarm is mode
