"""The live screen as text: whole pictures as golden files; whatever the size, it fits."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_files import assert_golden
from history_samples import utc
from reconciler.render.cells import cut, padded, width_of
from reconciler.render.top_text import screen, top_text
from reconciler.render.top_view import ORDERS, View, chosen
from top_views import busy, calm, crowded, view

BUSY, CALM, CROWDED = busy(), calm(), crowded(60)


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    with utc():
        yield


def lines_of(shown: View, width: int = 100, height: int = 40) -> list[str]:
    return screen(shown, width, height)


PICTURES: dict[str, Callable[[], list[str]]] = {
    "80x24": lambda: screen(BUSY, 80, 24),
    "160x50": lambda: screen(BUSY, 160, 50, blocks=True),
    "200x60-calm": lambda: screen(CALM, 200, 60),
    "80x24-crowded": lambda: screen(replace(CROWDED, offset=20, sort="memory"), 80, 24),
    "40x10": lambda: screen(BUSY, 40, 10),
    "once": lambda: [top_text(BUSY, 100)],
}


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_pictures(name: str) -> None:
    assert_golden(f"top-{name}.txt", "\n".join(line.rstrip() for line in PICTURES[name]()) + "\n")


@given(
    st.sampled_from([BUSY, CALM, CROWDED]),
    st.integers(1, 220),
    st.integers(1, 70),
    st.integers(0, 70),
    st.booleans(),
)
def test_a_picture_has_the_size_of_the_screen(
    shown: View, width: int, height: int, offset: int, colour: bool
) -> None:
    lines = screen(replace(shown, offset=offset), width, height, colour=colour, blocks=True)
    assert len(lines) == height
    assert max(map(width_of, lines)) <= width
    assert colour or "\x1b" not in "".join(lines)


def test_colours_change_nothing_but_colours() -> None:
    plain, painted = screen(BUSY, 120, 40), screen(BUSY, 120, 40, colour=True)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in painted] == plain
    assert painted != plain


def test_models_that_do_not_fit_are_scrolled_to() -> None:
    top, end = lines_of(CROWDED, 100, 24), lines_of(replace(CROWDED, offset=999), 100, 24)
    assert any(line.startswith("model-000 ") for line in top)
    assert any(line.startswith("model-059 ") for line in end)
    assert re.search(r"arrows: models 1-(\d+) of 60", top[-1])
    assert re.search(r"arrows: models (\d+)-60 of 60", end[-1])
    assert "arrows" not in lines_of(BUSY)[-1]


def test_a_filter_looks_into_names_aliases_states_and_residencies() -> None:
    for words, found in (
        ("CHAT", ["chat"]),
        ("gpt-4", ["chat"]),
        ("failing", ["flaky"]),
        ("warm", ["embed"]),
        ("nothing", []),
    ):
        assert [m["name"] for m in chosen(replace(BUSY, filter=words))] == found, words
    assert "/ filter: chat" in lines_of(replace(BUSY, filter="chat"))[-1]
    typed = replace(BUSY, filter="chat", typing="emb")
    assert [m["name"] for m in chosen(typed)] == ["embed"]
    assert lines_of(typed)[-1].startswith("filter: emb_")


def test_each_order_is_total_and_begins_with_what_it_says() -> None:
    first = {sort: chosen(replace(BUSY, sort=sort))[0]["name"] for sort in ORDERS}
    assert first == {
        "name": "chat",
        "memory": "chat",
        "last used": "embed",
        "waiting": "coder",
        "priority": "embed",
        "state": "coder",
    }
    for sort in ORDERS:
        again = replace(BUSY, sort=sort, status={**BUSY.status, "models": BUSY.status["models"][::-1]})
        assert chosen(again) == chosen(replace(BUSY, sort=sort))


def test_ages_go_on_between_two_documents() -> None:
    def action(age: float) -> str:
        return next(line for line in lines_of(replace(BUSY, age=age)) if line.startswith("action"))

    assert "loading coder, 12 s of about 18 s" in action(0)
    assert "loading coder, 16 s of about 18 s" in action(4)
    assert "in 41s" in "\n".join(lines_of(replace(BUSY, age=4), 160))


def test_times_in_a_reason_go_on_with_the_columns_beside_them() -> None:
    def told(detail: str, age: float, **more: object) -> str:
        model = BUSY.status["models"][0]
        verdict = {**model["verdict"], "detail": detail}
        models = [{**model, "verdict": verdict, "active": 0, "served": 1, **more}]
        shown = replace(BUSY, status={**BUSY.status, "models": models}, age=age)
        return next(line for line in lines_of(shown, 200) if line.startswith(f"{model['name']} "))

    assert told("idle 3.0s", 30.0, idle=3.0).count("33s") == 2
    tried = told("failed 2 times, tries again in 20s: exit 1", 8.0, retry_in=20.0)
    assert "in 12s  " in tried
    assert "tries again in 12s: exit 1" in tried
    assert "less likely, idle 9s" in told("less likely, idle 9s", 30.0, idle=3.0)  # another model's


def test_a_loop_that_is_gone_is_told_in_red_and_first_where_there_is_no_room() -> None:
    gone = replace(BUSY, link="the loop has ended, 3 s ago; waiting for it", stale=True)
    assert lines_of(gone, 120)[0].endswith("waiting for it")
    assert lines_of(gone, 60)[0].startswith("the loop has ended, 3 s ago; waiting for it")
    assert "\x1b[31mthe loop has ended" in screen(gone, 120, 40, colour=True)[0]


def test_a_loop_of_an_earlier_version_is_shown() -> None:
    memory = {k: v for k, v in BUSY.status["memory"].items() if k not in ("reserve", "marks")}
    shown = lines_of(replace(BUSY, status={**BUSY.status, "memory": memory}))
    assert "- reserve" not in "\n".join(shown)


def test_the_bars_have_what_the_figures_say() -> None:
    budget, machine = (line.strip()[1:-1] for line in lines_of(BUSY, 111) if line.startswith("         ["))
    assert len(budget) == len(machine) == 100
    # 28.8 GiB: 6.6 held, 20 reserved, 2.2 free.
    assert (budget.count("?"), budget.count(".")) == (round(100 * 26.6 / 28.8) - round(100 * 6.6 / 28.8), 8)
    assert [n for n, sign in enumerate(machine) if sign == "|"] == [75, 85, 95]
    assert "x" in machine
    assert "~" in machine


def test_memory_that_is_unknown_is_told() -> None:
    from board_samples import blind_plan, snapshot

    made = snapshot()
    blind = replace(made, plan=blind_plan())
    shown = lines_of(view(blind, blind_plan()))
    assert any("memory is unknown: /proc/meminfo" in line for line in shown)


def test_names_that_are_wide_or_hostile_keep_the_columns() -> None:
    pattern = BUSY.status["models"][0]
    names = ("模型" * 12, "a\x1b[2J\nb", "z" * 200)
    models = [{**pattern, "name": name} for name in names]
    shown = lines_of(replace(BUSY, status={**BUSY.status, "models": models}), 120)
    rows = [line for line in shown if " ready " in line]
    assert len({width_of(row[: row.index("ready")]) for row in rows}) == 1
    assert "\x1b" not in "".join(shown)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=40), st.integers(0, 50))
def test_cut_and_padded_text_fits(text: str, width: int) -> None:
    painted = f"\x1b[31m{text}\x1b[0m"
    for given_text in (text, painted):
        assert width_of(cut(given_text, width)) <= width
        assert width_of(padded(given_text, width)) == width
    if width_of(text) <= width:
        assert cut(text, width) == text
