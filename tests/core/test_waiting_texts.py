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
            "90 MiB short: a and s are loaded first",
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
