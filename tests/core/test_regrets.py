"""When a model is told to be evicted and wanted at once, and what is said then."""

from dataclasses import replace

import pytest

from reconciler.core.machine import Idle
from reconciler.core.plan import plan
from reconciler.core.regrets import WINDOW, Gone, Regret, regret
from reconciler.core.status import Facts, of_models
from reconciler.core.types import Reason
from worlds import NOW, manifest, model, world

ROOM, PRESSURE = Reason.MAKE_ROOM, Reason.MEMORY_PRESSURE


def gone(ago: float = 60.0, wanted: float | None = 5.0, reason: Reason = ROOM, rival: str = "coder") -> Gone:
    return Gone(reason, rival, NOW - ago, wanted)


@pytest.mark.parametrize(
    ("evictions", "told"),
    [
        ([gone(), gone(), gone()], (3, 3)),
        ([gone(wanted=60.0)] * 3 + [gone(wanted=60.1), gone(wanted=None)], (5, 3)),
        ([gone(), gone()], None),
        ([gone(wanted=None)] * 9, None),
        ([gone(), gone(), gone(ago=WINDOW)], None),  # the third is not of the last hour any more
        ([gone(reason=Reason.DISMISSED)] * 9, None),  # a person wished for that
        ([gone(reason=Reason.IDLE_EXPIRED)] * 9, None),
        ([gone(reason=r, rival="") for r in (PRESSURE, Reason.OVER_BUDGET, Reason.LESS_LIKELY)], (3, 3)),
    ],
)
def test_three_regrets_in_an_hour_are_told(evictions: list[Gone], told: tuple[int, int] | None) -> None:
    found = regret("chat", evictions, NOW)
    assert (None if found is None else (found.evictions, found.regretted)) == told


@pytest.mark.parametrize(
    ("evictions", "message"),
    [
        (
            [gone()] * 4 + [gone(wanted=None)],
            (
                "was wanted again within a minute of 4 of 5 evictions in the last hour, each time for coder: raise"
                " machine.memory, or give less context to models that are used at the same time; `reconcile status`"
                " names those that cannot stand together"
            ),
        ),
        (
            [gone()] * 3 + [gone(rival="asr")],
            (
                "was wanted again within a minute of all 4 evictions in the last hour, mostly for coder: raise"
                " machine.memory, or give less context to models that are used at the same time; `reconcile status`"
                " names those that cannot stand together"
            ),
        ),
        (
            [gone(reason=PRESSURE, rival="")] * 3,
            (
                "was wanted again within a minute of all 3 evictions in the last hour, each time because the machine"
                " was short of memory: lower machine.memory to what other programs leave, or end those"
            ),
        ),
        (
            [gone(reason=Reason.OVER_BUDGET, rival="")] * 3 + [gone(reason=PRESSURE, rival="")],
            (
                "was wanted again within a minute of all 4 evictions in the last hour, mostly because models held more"
                " than the budget: state what models really need in memory.steady, or raise machine.memory"
            ),
        ),
        (
            [gone(reason=Reason.LESS_LIKELY, rival="")] * 3,
            (
                "was wanted again within a minute of all 3 evictions in the last hour, each time for a model that"
                " seemed likelier to be used: set prewarm to free, so that nothing goes for a guess"
            ),
        ),
    ],
)
def test_what_is_said_names_figures_cause_and_remedy(evictions: list[Gone], message: str) -> None:
    found = regret("chat", evictions, NOW)
    assert found is not None
    assert found.message == message


def test_the_condition_is_the_models_own_and_goes_when_it_is_over() -> None:
    wanted = manifest(model("chat"), model("coder"))
    seen = world()
    facts = Facts(wanted, seen, plan(wanted, seen, NOW), Idle(), frozenset())
    rued = regret("chat", [gone()] * 3, NOW)
    assert isinstance(rued, Regret)
    during = of_models(replace(facts, regrets=(rued,)), {}, NOW)
    assert {m: [c.type for c in cs] for m, cs in during.items()} == {
        "chat": ["Ready", "EvictedThenWanted"],
        "coder": ["Ready"],
    }
    condition = during["chat"][1]
    assert (condition.status, condition.reason, condition.message) == ("True", "MakeRoom", rued.message)
    assert [c.type for c in of_models(facts, during, NOW + 60)["chat"]] == ["Ready"]
