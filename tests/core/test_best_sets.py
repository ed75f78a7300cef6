"""The cheapest set of victims, and the set of most worth: as good as trying every set."""

from dataclasses import replace
from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.cheapest import EXACT, cheapest
from reconciler.core.diff import Row, compare
from reconciler.core.knapsack import Item, most
from reconciler.core.plan import plan
from reconciler.core.shares import Shares
from reconciler.core.types import Chance, Evict, Instance, Load
from worlds import MIB, NOW, manifest, model, running, waiting, world

SIZES = st.sampled_from([1, 2, 3, 5, 8, 13, 21])
LOSSES = st.sampled_from([0.04, 0.5, 1.0, 2.5, 7.0])


def rows(sizes: list[int], losses: list[float], first: int = 0) -> dict[str, Row]:
    """Idle models that run, of these sizes in MiB and losses."""
    names = [f"m{first + number:02}" for number in range(len(sizes))]
    known = manifest(*(model(n, s) for n, s in zip(names, sizes, strict=True)))
    seen = world(*(running(n, s) for n, s in zip(names, sizes, strict=True)))
    table = compare(known, seen, NOW)
    for row, loss in zip(table.rows, losses, strict=True):
        row.loss = loss
    return {row.name: row for row in table.rows}


@st.composite
def levels(draw: st.DrawFn) -> list[dict[str, Row]]:
    made: list[dict[str, Row]] = []
    for _ in range(draw(st.integers(1, 3))):
        pairs = draw(st.lists(st.tuples(SIZES, LOSSES), min_size=1, max_size=4))
        made.append(rows([p[0] for p in pairs], [p[1] for p in pairs], first=10 * len(made)))
    return made


def sets_of(found: list[Row]) -> chain[tuple[Row, ...]]:
    return chain.from_iterable(combinations(found, count) for count in range(len(found) + 1))


def freed(found: tuple[Row, ...] | list[Row]) -> int:
    return sum(r.charge or 0 for r in found)


@settings(max_examples=100)
@given(levels(), st.integers(1, 60), st.sampled_from(["m00", "m10", "nobody"]))
def test_no_set_of_victims_is_cheaper_and_none_of_them_is_spare(
    given_levels: list[dict[str, Row]], mib: int, but: str
) -> None:
    short = mib * MIB
    found = cheapest(given_levels, but, short, Shares())
    allowed = [[r for r in level.values() if r.name != but] for level in given_levels]
    enough = [taken for taken in sets_of(list(chain(*allowed))) if freed(taken) >= short]
    if found is None:
        assert not enough
        return
    assert freed(found) >= short
    assert but not in {r.name for r in found}
    assert all(freed(found) - (r.charge or 0) < short for r in found)

    def price(taken: tuple[Row, ...] | list[Row]) -> list[float]:
        """What a set costs of each level, the highest first."""
        return [sum(r.loss for r in taken if r in level) for level in reversed(allowed)]

    assert [round(p, 9) for p in price(found)] == min([round(p, 9) for p in price(taken)] for taken in enough)


def test_of_many_the_cheapest_for_each_go_in_order_less_those_that_are_spare() -> None:
    many = rows([1] * EXACT + [20], [0.1 * n for n in range(EXACT)] + [9.0])
    found = cheapest([many], "", 3 * MIB, Shares())
    assert found is not None
    assert [r.name for r in found] == ["m00", "m01", "m02"]


@settings(max_examples=100)
@given(st.lists(st.tuples(LOSSES, SIZES), max_size=9), st.integers(0, 60))
def test_no_set_that_fits_is_worth_more(things: list[tuple[float, int]], room: int) -> None:
    items: list[Item] = [(worth, size, f"m{n}") for n, (worth, size) in enumerate(things)]
    chosen = most(items, room)
    taken = [i for i in items if i[2] in chosen]
    assert sum(i[1] for i in taken) <= room
    every = chain.from_iterable(combinations(items, count) for count in range(len(items) + 1))
    best = max(sum(i[0] for i in some) for some in every if sum(i[1] for i in some) <= room)
    assert round(sum(i[0] for i in taken), 9) == round(best, 9)


def asleep(name: str, mib: int, idle: float) -> Instance:
    return replace(running(name, mib, idle=idle), ready=False, asleep=True)


def test_of_models_that_sleep_none_goes_for_nothing() -> None:
    wanted = manifest(
        model("big", 100, sleeps=True), model("new", 150), model("a-small", 40, sleeps=True), mib=200
    )
    seen = world(
        asleep("big", 100, 10.0), asleep("a-small", 40, 20.0), demands=[waiting("new")], available_mib=60
    )
    gone = [s.model for s in plan(wanted, seen, NOW).steps if isinstance(s, Evict)]
    assert gone == ["big"]
    assert [s.model for s in plan(wanted, seen, NOW).steps if isinstance(s, Load)] == ["new"]


def test_of_two_alike_the_one_for_which_more_wait_together_stays() -> None:
    known = manifest(model("few", 40), model("many", 40), model("new", 40), mib=100)
    seen = world(running("few", 40), running("many", 40), demands=[waiting("new")], available_mib=20)
    for few, many, goes in ((1.0, 3.0, "few"), (3.0, 1.0, "many")):
        chances = (Chance("few", 0.5, few), Chance("many", 0.5, many))
        first = plan(known, replace(seen, chances=chances), NOW).head
        assert isinstance(first, Evict)
        assert first.model == goes
