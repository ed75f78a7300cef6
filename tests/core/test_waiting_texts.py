"""What a model that waits is told: who really has the room it lacks."""

import pytest

from reconciler.core.plan import plan
from reconciler.core.types import Manifest, Reason, Verdict, World
from worlds import NOW, manifest, model, running, waiting, world


def blocked(name: str, wanted: Manifest, seen: World) -> Verdict:
    found = plan(wanted, seen, NOW).verdict(name)
    assert found is not None
    return found


OTHERS = "pinned models and other programs hold the rest"


@pytest.mark.parametrize(
    ("seen", "detail"),
    [
        # The load of a is the next step of the same plan, or the one after its victim has left.
        (world(demands=[waiting("a", since=9), waiting("b")]), "50 MiB short: a is loaded first"),
        (
            world(running("c", 100), demands=[waiting("a", since=9), waiting("b")]),
            "50 MiB short: a is loaded first",
        ),
        (
            world(demands=[waiting("a", since=9), waiting("b"), waiting("s", since=8)]),
            "90 MiB short: s and a are loaded first",
        ),
        # It is being loaded already.
        (
            world(running("a", 100, ready=False), demands=[waiting("a", since=9), waiting("b")]),
            "50 MiB short: a is loaded first",
        ),
        # Somebody else has it, whoever of ours comes first.
        (world(demands=[waiting("b")], available_mib=30), f"70 MiB short: {OTHERS}"),
        (
            world(running("a", 100, ready=False), demands=[waiting("b")], available_mib=-60),
            f"160 MiB short: {OTHERS}, and a is loaded first",
        ),
    ],
)
def test_a_model_is_told_who_has_the_room_it_lacks(seen: World, detail: str) -> None:
    wanted = manifest(model("a"), model("b"), model("c"), model("s", 40), mib=150)
    verdict = blocked("b", wanted, seen)
    assert (verdict.reason, verdict.detail) == (Reason.INSUFFICIENT_MEMORY, detail)


def test_three_of_many_that_come_first_are_named() -> None:
    names = [f"m{number}" for number in range(6)]
    demands = [waiting(name, since=9 - number) for number, name in enumerate(reversed(names))]
    wanted = Manifest((*(model(name, 10) for name in names), model("z", 100)), memory=100 << 20, reserve=0)
    verdict = blocked("z", wanted, world(demands=[*demands, waiting("z")]))
    assert verdict.detail == "60 MiB short: m5, m4, m3 and 3 more are loaded first"
