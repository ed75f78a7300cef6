"""Advice as people and programs read it: whole texts as golden files, JSON against its committed schema."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from advice_worlds import Desk, Machine
from board_samples import SOURCE, applied, snapshot
from golden_files import assert_golden
from reconciler.board import Snapshot
from reconciler.core.advice_types import Change, ChangeKind
from reconciler.core.advice_words import change_text
from reconciler.core.machine import Idle
from reconciler.core.plan import plan
from reconciler.core.types import MayPreempt, Policy, Prewarm, Residency
from reconciler.core.value import RETURNING
from reconciler.render import advice_document, schemas
from reconciler.render.advice_document import advice_json, hint_documents
from reconciler.render.explain_text import explain_text
from reconciler.render.plan_document import plan_json
from reconciler.render.plan_text import plan_text
from reconciler.render.status_document import status_json
from reconciler.render.status_text import status_text
from worlds import NOW

SCHEMAS = Path(__file__).parents[1] / "schemas"
GIB = 1024
#: A full desk: `chat` and `coder` take turns, `big` is too large beside the pinned `embed`, `notes` waits for nobody.
DESK = Machine(
    (
        Desk("big", 30 * GIB, 10 * GIB, waits=12.0),
        Desk("chat", 16 * GIB, 8 * GIB, idle=40.0, returns=0.6, priority=500),
        Desk("coder", 16 * GIB, 8 * GIB, waits=3.0, returns=0.7),
        Desk("embed", 1 * GIB, 0, idle=5.0, residency=Residency.PINNED, stated=True, returns=0.8),
        Desk("kept", 8 * GIB, 2 * GIB, idle=400.0, priority=900, min_resident=600.0, age=400.0),
        Desk("notes", 2 * GIB, 1 * GIB, returns=0.002),
    ),
    total=48 * GIB,
    memory=40 * GIB,
    reserve=0,
    swaps=(("chat", "coder"), ("coder", "chat")),
    tokens=8,
)
CALM = replace(DESK.edit("big", waits=None).edit("coder", waits=None), swaps=())


def seen(machine: Machine = DESK) -> Snapshot:
    manifest, world = machine.built()
    names = {m.name: m.name for m in manifest.models}
    base = replace(applied(), manifest=manifest, launches={}, routes=names, warnings=())
    made = plan(manifest, world, NOW)
    return replace(
        snapshot(),
        applied=base,
        world=world,
        plan=made,
        state=Idle(),
        progress=None,
        at=NOW,
        manifest_conditions=(),
        model_conditions={},
    )


def explained(name: str, machine: Machine = DESK) -> str:
    shot = seen(machine)
    return explain_text(status_json(shot, NOW), name, advice_json(shot, NOW, name))


@pytest.mark.parametrize("name", ["big", "chat", "coder", "embed", "notes"])
def test_explain_text(name: str) -> None:
    assert_golden(f"advice-{name}.txt", explained(name) + "\n")


def test_status_and_dry_run_tell_at_most_three_things() -> None:
    shot = seen()
    assert_golden("advice-status.txt", status_text(status_json(shot, NOW)) + "\n")
    hints = hint_documents(shot.applied.manifest, shot.world, shot.plan, NOW, waiting=True)
    assert_golden("advice-plan.txt", plan_text(shot.plan, SOURCE, advice=hints) + "\n")
    assert [h.about for h in hints] == ["rivals", "blocked"]


def test_no_advice_where_nobody_waits_or_takes_turns() -> None:
    shot = seen(CALM)
    assert status_json(shot, NOW)["advice"] == []
    assert "advice:" not in status_text(status_json(shot, NOW))


def test_no_advice_in_the_status_of_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    shot = seen()
    assert status_json(shot, NOW)["advice"]
    monkeypatch.setattr(advice_document, "MODELS", 5)
    assert status_json(shot, NOW)["advice"] == []


@pytest.mark.parametrize("name", ["big", "chat", "coder", "embed", "notes"])
def test_the_document_conforms(name: str) -> None:
    document = json.loads(json.dumps(advice_json(seen(), NOW, name)))
    jsonschema.validate(document, schemas.advice_schema())
    assert json.loads((SCHEMAS / "advice.v1.json").read_text("utf-8")) == schemas.advice_schema()
    assert document["model"] == name


def test_status_and_plan_with_advice_conform() -> None:
    shot = seen()
    status = json.loads(json.dumps(status_json(shot, NOW)))
    jsonschema.validate(status, schemas.status_schema())
    hints = hint_documents(shot.applied.manifest, shot.world, shot.plan, NOW)
    document = json.loads(json.dumps(plan_json(shot.plan, SOURCE, hints)))
    jsonschema.validate(document, schemas.plan_schema())
    assert document["advice"] == status["advice"] != []


def test_a_stranger_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        advice_json(seen(), NOW, "nobody")


def test_what_would_go_is_told_where_the_model_would_be_loaded() -> None:
    text = explained("coder", CALM)
    assert "  room         if it were asked for now: chat goes, 24.0 GiB (MakeRoom: " in text
    assert "would load" not in text
    assert "  room         there is room for it, nobody would go\n" in explained("notes", CALM)


BACK = "(16.0 s to load + 4.0 s for making room)"
AGAIN = "used again within 15 min:"


def value_line(**worth: Any) -> str:
    from reconciler.render.advice_text import worth_lines

    figures = {
        "seconds": 12.0,
        "return_seconds": 20.0,
        "load_seconds": 16.0,
        "decides": True,
        "returns": 0.6,
        "learned": True,
        "waiters": 1.0,
        "soon": 0.64,
        "rank": None,
        "of": 0,
    }
    return "; ".join(f"{label}: {text}" for label, text in worth_lines({"worth": figures | worth}))


@pytest.mark.parametrize(
    ("worth", "line"),
    [
        ({}, f"value: 12.0 s = {BACK} x 0.6000 for how soon; used again within 15 min: about 64 %"),
        (
            {"soon": 0.001, "seconds": 0.01, "returns": 0.0005},
            f"value: 0.0 s = {BACK} x 0.0005 for how soon; used again within 15 min: less than 1 %",
        ),
        (
            {"soon": 0.999},
            f"value: 12.0 s = {BACK} x 0.6000 for how soon; used again within 15 min: more than 99 %",
        ),
        (
            {"soon": None, "returns": None, "seconds": 0.0},
            f"value: 0.0 s = {BACK} x 0; nothing is known yet of when it is used",
        ),
        (
            {"learned": False},
            f"value: 12.0 s = {BACK} x 0.6000 for how soon; {AGAIN} about 64 %, by its idle time alone",
        ),
        (
            {"waiters": 2.5, "seconds": 30.0},
            f"value: 30.0 s = {BACK} x 0.6000 for how soon x 2.50 who wait together; {AGAIN} about 64 %",
        ),
        ({"decides": False}, ""),
    ],
)
def test_worth_in_words(worth: dict[str, Any], line: str) -> None:
    assert value_line(**worth) == line


@pytest.mark.parametrize("name", ["chat", "coder", "notes"])
def test_the_figures_of_a_value_are_those_it_is_made_of(name: str) -> None:
    line = next(line for line in explained(name).splitlines() if line.startswith("  value"))
    said, load, besides, chance = map(float, re.findall(r"\d+\.\d+", line)[:4])
    assert said == pytest.approx((load + besides) * chance, abs=0.1)
    assert besides == RETURNING


@pytest.mark.parametrize(
    ("policy", "prewarm", "shown"),
    [
        (Policy.COST, Prewarm.OFF, {"chat"}),
        (Policy.COST, Prewarm.FREE, {"chat", "coder"}),
        (Policy.LRU, Prewarm.OFF, set()),
        (Policy.LRU, Prewarm.FREE, {"coder"}),
        (Policy.LRU, Prewarm.FULL, {"chat", "coder"}),
    ],
)
def test_a_value_is_shown_where_it_decides_and_nobody_asks_what_a_pinned_one_is_worth(
    policy: Policy, prewarm: Prewarm, shown: set[str]
) -> None:
    shot = seen()
    applied = replace(shot.applied, manifest=replace(shot.applied.manifest, policy=policy, prewarm=prewarm))
    shot = replace(shot, applied=applied)
    names = ("chat", "coder", "embed")
    assert {n for n in names if advice_json(shot, NOW, n)["worth"]["decides"]} == shown


@pytest.mark.parametrize(
    ("rank", "of", "line"),
    [
        (1, 1, "the only one that may have to give way"),
        (1, 4, "1 of 4 to give way"),
        (2, 4, "2 of 4 to give way; 1 goes first"),
    ],
)
def test_rank_in_words(rank: int, of: int, line: str) -> None:
    assert value_line(rank=rank, of=of).endswith(f"; rank: {line}")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Change(ChangeKind.WAIT, seconds=49.0, why="its next try is due"), "in 49s: its next try is due"),
        (Change(ChangeKind.ASK, "a"), "after `reconcile load a`: it is due at once then"),
        (Change(ChangeKind.MAY_PREEMPT, "a", may_preempt=MayPreempt.LOWER), "with may_preempt: lower for a"),
        (Change(ChangeKind.PRIORITY, "a", priority=501), "with priority 501 for a"),
        (Change(ChangeKind.MEMORY, bytes=(3 << 30) + 1), "with 3.1 GiB more in machine.memory"),
        (
            Change(ChangeKind.CONTEXT, "a", 3 << 30, 12288, 20480),
            "with 3.0 GiB less context for a (12288 tokens less, 20480 left)",
        ),
        (
            Change(ChangeKind.CONTEXT, "a", 12 << 20),
            "with 12 MiB less for a (less context, or smaller weights)",
        ),
        (Change(ChangeKind.RELEASE, "a"), "once no lease holds a (`reconcile release`)"),
        (Change(ChangeKind.RESERVE, bytes=1 << 30), "with 1.0 GiB less in machine.reserve"),
        (Change(ChangeKind.HARD_MARK, mark=0.88), "with machine.watermarks.hard at 88 %"),
        (Change(ChangeKind.UNPIN, "a"), "with a warm instead of pinned"),
        (Change(ChangeKind.OTHERS, bytes=5 << 20), "once other programs give back 5 MiB"),
    ],
    ids=lambda value: value.kind.value if isinstance(value, Change) else "",
)
def test_changes_in_words(change: Change, text: str) -> None:
    assert change_text(change) == text
