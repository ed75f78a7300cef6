"""The picture of a simulation, read back as XML."""

import random
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulate_samples as samples
from reconciler.core.types import Reason
from reconciler.render import simulate_svg as svg
from reconciler.render.simulate_picture import WIDTH, picture
from reconciler.render.simulate_scene import Axis, Lane, Panel, highest, joined, occupied
from reconciler.simulate.result import Action, Result
from reconciler.simulate.scene import panels

SVG = "{http://www.w3.org/2000/svg}"
DAY = 86400.0


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def lanes(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [g for g in root.iter(f"{SVG}g") if g.get("class") == "lane"]


def boxes(lane: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    """Return (left, width) of each box of this class."""
    found = next((p for p in lane.iter(f"{SVG}path") if p.get("class") == kind), None)
    if found is None:
        return []
    return [(float(x), float(w)) for x, w in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)", found.get("d", ""))]


def labels(element: ElementTree.Element) -> list[str]:
    return [t.text or "" for t in element.iter(f"{SVG}text")]


def test_a_lane_a_model_with_what_became_of_it() -> None:
    root = parsed(picture(panels([samples.result()])))
    chat, coder, embed = lanes(root)
    assert [labels(lane) for lane in (chat, coder, embed)] == [
        ["chat", "40.0 GiB"],
        ["coder", "22.0 GiB"],
        ["embed", "1.0 GiB"],
    ]
    assert [len(boxes(chat, kind)) for kind in ("m0", "load", "evict", "w")] == [4, 4, 3, 3]
    assert [len(boxes(coder, kind)) for kind in ("m1", "load", "evict", "w")] == [3, 4, 3, 3]
    assert [len(boxes(embed, kind)) for kind in ("m2", "load", "evict", "w")] == [1, 1, 0, 0]
    title = chat.find(f"{SVG}title")
    assert title is not None
    assert title.text == "chat: 4 loads, 3 evictions, waited for 3 times, 12 s at most"


def test_boxes_are_as_wide_as_their_time() -> None:
    lane = Lane("a", 1, resident=((100.0, 200.0), (500.0, 1000.0)), loading=((90.0, 100.0),))
    root = parsed(picture([Panel("t", "", 0.0, 1000.0, 2, (lane,))]))
    axis_width, left = WIDTH - 170 - 20, 170
    assert boxes(lanes(root)[0], "m0") == [
        (left + axis_width * 0.1, axis_width * 0.1),
        (left + axis_width * 0.5, axis_width * 0.5),
    ]
    assert boxes(lanes(root)[0], "load") == [(left + axis_width * 0.09, axis_width * 0.01)]


def test_marks_are_higher_where_more_wait() -> None:
    lane = Lane("a", 1, waiting=((100.0, 200.0, 1), (300.0, 310.0, 10), (305.0, 400.0, 5)))
    root = parsed(picture([Panel("t", "", 0.0, 1000.0, 2, (lane,))]))
    mark = next(p for p in lanes(root)[0].iter(f"{SVG}path") if p.get("class") == "w")
    heights = [float(h) for h in re.findall(r"v([\d.]+)h", mark.get("d", ""))]
    assert heights == [3.0, 15.0, 7.5]
    assert "requests wait for it; the highest marks are 10" in labels(root)


def test_memory_is_stacked_below_the_line_of_what_there_is() -> None:
    parts = (Lane("a", 40, resident=((0.0, 1000.0),)), Lane("b", 20, resident=((500.0, 1000.0),)))
    root = parsed(picture([Panel("t", "", 0.0, 1000.0, 80, parts)]))
    memory = next(g for g in root.iter(f"{SVG}g") if g.get("class") == "memory")
    areas = {p.get("class"): p.get("d", "") for p in memory.iter(f"{SVG}path")}
    line = float(re.findall(r"M170 ([\d.]+)H", areas["b"])[0])
    bottom = float(re.findall(r"M170 ([\d.]+)H", areas["d"])[0])
    top_of_a = bottom - (bottom - line) / 2
    assert areas["m0"] == f"M170 {svg.number(top_of_a)}H1180V{svg.number(bottom)}H170z"
    levels = {float(y) for y in re.findall(r"V([\d.]+)", areas["m1"])}
    assert min(levels) == pytest.approx(bottom - (bottom - line) * 0.75, abs=0.1)


@pytest.mark.parametrize(
    ("began", "ended", "expected", "missing"),
    [
        (8 * 3600.0, 8.5 * 3600.0, ["08:00", "08:05", "08:30"], "day 1"),
        (0.0, DAY, ["02:00", "12:00", "22:00", "day 2"], "09:30"),
        (0.0, 7 * DAY, ["day 1", "day 2", "day 7", "12:00"], "06:00"),
        (0.0, 100 * DAY, ["day 1", "day 43", "day 97"], "12:00"),
        (30.0, 65.0, ["00:00:30", "00:01:00"], "00:02:00"),
    ],
)
def test_ticks_are_round_times(began: float, ended: float, expected: list[str], missing: str) -> None:
    said = labels(parsed(picture([Panel("t", "", began, ended, 1, (Lane("a", 1),))])))
    assert [tick for tick in expected if tick not in said] == []
    assert missing not in said
    assert sum(":" in label or label.startswith("day") for label in said) <= 21


def test_several_runs_share_one_axis_and_the_order_of_lanes() -> None:
    short = samples.result("cost", swaps=2)
    few = replace(short, sizes={"coder": samples.GIB}, models={}, residency={})
    root = parsed(picture(panels([samples.result("lru"), few])))
    assert [labels(lane)[0] for lane in lanes(root)] == ["chat", "coder", "embed"] * 2
    assert {"lru", "cost"} <= set(labels(root))


@given(st.text(max_size=40))
def test_no_name_breaks_the_document(name: str) -> None:
    lane = Lane(name, 1, resident=((0.0, 5.0),))
    root = parsed(picture([Panel(name, name, 0.0, 10.0, 1, (lane,))]))
    assert len(lanes(root)) == 1
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
        *("svg", "title", "style", "defs", "pattern", "rect", "path", "g", "text")
    }


def test_both_light_and_dark_and_nothing_from_elsewhere() -> None:
    text = picture(panels([samples.result()]))
    assert "@media (prefers-color-scheme:dark)" in text
    root = parsed(text)
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    filled = {e.get("class") for e in root.iter() if e.get("class")}
    sheet = "".join(s.text or "" for s in root.iter(f"{SVG}style"))
    assert [
        c
        for c in filled - {"lane", "memory", "legend", "load", "evict"}
        if not re.search(rf"\.{c}[,{{]", sheet)
    ] == []


def test_five_thousand_actions_of_a_week_stay_below_a_megabyte() -> None:
    week = _busy_week(5000)
    text = picture(panels([week]))
    assert len(week.actions) == 5000
    assert len(text.encode()) < 1_000_000
    assert len(lanes(parsed(text))) == 12


def _busy_week(count: int) -> Result:
    """Return a week in which twelve models come and go at random."""
    rng, names = random.Random(7), [f"model-{n:02}" for n in range(12)]
    step, there = 7 * DAY / count, dict.fromkeys(names, -1.0)
    actions, residency = [], {name: list[tuple[float, float]]() for name in names}
    for number in range(count):
        at, name = number * step, rng.choice(names)
        if there[name] < 0:
            actions.append(Action("load", name, Reason.DEMANDED, at, at + 15))
            there[name] = at + 15
        else:
            actions.append(Action("evict", name, Reason.MAKE_ROOM, at, at + 2))
            residency[name].append((there[name], at))
            there[name] = -1.0
    return replace(
        samples.result("week"),
        began=0.0,
        ended=7 * DAY,
        actions=tuple(actions),
        residency={name: tuple(spans) for name, spans in residency.items()},
        waiting={a.model: ((a.began, a.ended, 3),) for a in actions},
        sizes=dict.fromkeys(names, 8 * samples.GIB),
        models={},
    )


spans_of_time = st.lists(
    st.tuples(st.floats(0, 1000), st.floats(0, 1000)).map(lambda s: (min(s), max(s))), max_size=30
)


@given(spans_of_time)
def test_joined_spans_cover_all_and_never_touch(spans: list[tuple[float, float]]) -> None:
    axis = Axis(0.0, 1000.0, 0.0, 100)
    made = joined(spans, axis, 1.0, 0.5)
    assert all(right - left >= 1.0 - 1e-9 for left, right in made)
    assert all(after[0] - before[1] >= 0.5 for before, after in pairwise(made))
    for since, until in spans:
        assert any(left <= axis.x(since) and axis.x(until) <= right for left, right in made)


@given(spans_of_time)
def test_shares_of_pixels_add_up_to_the_time_that_is_covered(spans: list[tuple[float, float]]) -> None:
    covered, end = 0.0, 0.0
    for since, until in sorted(spans):
        covered += max(0.0, until - max(since, end))
        end = max(end, until)
    axis = Axis(0.0, 1000.0, 50.0, 100)
    assert sum(occupied(spans, axis)) == pytest.approx(covered / axis.per_pixel, abs=1e-6)


def test_the_highest_of_each_pixel() -> None:
    assert highest(((0.0, 15.0, 2), (10.0, 12.0, 5), (99.0, 100.0, 1)), Axis(0.0, 100.0, 50.0, 10)) == [
        *(2, 5, 0, 0, 0, 0, 0, 0, 0, 1)
    ]


@pytest.mark.parametrize(("value", "shown"), [(12.0, "12"), (3.14159, "3.1"), (-0.04, "0"), (-1.25, "-1.2")])
def test_coordinates_are_short(value: float, shown: str) -> None:
    assert svg.number(value) == shown
