"""What people and programs read: whole texts as golden files, JSON against its committed schema."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board_samples import (
    NOW,
    SECRET,
    SOURCE,
    STATES,
    blind_plan,
    condition,
    design_plan,
    mib,
    quiet_plan,
    refused_snapshot,
    reload_plan,
    snapshot,
)
from golden_files import assert_golden
from reconciler.board import Progress
from reconciler.core.machine import Evicting, Halted, State
from reconciler.core.status import Truth
from reconciler.core.types import Account, Evict, Outcome, Plan, Reason, Verdict
from reconciler.manifest.applied import Source
from reconciler.render import schemas
from reconciler.render.explain_text import explain_text
from reconciler.render.paint import one_line
from reconciler.render.plan_document import plan_json
from reconciler.render.plan_text import plan_text
from reconciler.render.status_document import status_json
from reconciler.render.status_text import action_text, condition_is_fine, status_text
from reconciler.render.units import scale_for

SCHEMAS = Path(__file__).parents[1] / "schemas"

DESIGN_TEXT = """\
manifest manifests/  generation 7  git 3f2c1ab
memory   24.0 GiB budget   18.7 held   1.0 reserved   4.3 free
  1. - qwen3-30b   frees 18.1 GiB -> 22.4 free   (MakeRoom for coder-32b: priority 500 <= 750, idle 14m)
  2. + coder-32b   needs 20.4 GiB ->  2.0 free   (Demanded: 2 requests waiting, oldest 3.1s)
     = embed       holds  0.6 GiB                (Pinned)
     ! vision      needs  9.0 GiB                (InsufficientMemory: 7.0 GiB short)
Plan: 1 to load, 1 to evict, 1 to keep, 1 blocked. Only step 1 runs before the world is observed again."""

PLANS = {
    "reload": reload_plan(),
    "quiet": quiet_plan(),
    "quiet-blocked": quiet_plan(blocked=True),
    "blind": blind_plan(),
    "empty": Plan(1, 1, Account(mib(600), 0, 0, mib(600))),
}


def test_the_plan_of_the_design_looks_as_designed() -> None:
    assert plan_text(design_plan(), SOURCE) == DESIGN_TEXT


@pytest.mark.parametrize("name", sorted(PLANS))
def test_plan_text(name: str) -> None:
    assert_golden(f"plan-{name}.txt", plan_text(PLANS[name], SOURCE) + "\n")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Source("a.yaml"), "manifest a.yaml  generation 7"),
        (Source("a.yaml", (), "abc", git_dirty=True), "manifest a.yaml  generation 7  git abc+dirty"),
    ],
)
def test_plan_header(source: Source, expected: str) -> None:
    assert plan_text(design_plan(), source).splitlines()[0] == expected


def test_colour_adds_codes_and_nothing_else() -> None:
    import re

    coloured = plan_text(design_plan(), SOURCE, colour=True)
    assert "\x1b[32m+\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == DESIGN_TEXT


def test_plan_columns_stay_aligned() -> None:
    lines = plan_text(reload_plan(), SOURCE).splitlines()[2:-1]
    assert len({line.index("(") for line in lines}) == 1
    assert len({line.index(" free  ") for line in lines if "->" in line}) == 1


def test_text_from_outside_cannot_break_a_line_or_drive_a_terminal() -> None:
    text = plan_text(quiet_plan(blocked=True), SOURCE)
    assert "\x1b" not in text
    assert "exit 1 \\x1b[31mred" in text


@given(st.text())
def test_one_line_is_printable_and_single(text: str) -> None:
    assert one_line(text).isprintable()


@pytest.mark.parametrize(
    ("counts", "count", "expected"),
    [
        ([mib(20480)], mib(1536), "1.5 GiB"),
        ([mib(20480)], mib(30), "30 MiB"),
        ([mib(20480)], 0, "0.0 GiB"),
        ([mib(10240)], mib(310), "0.3 GiB"),
        ([mib(10239)], mib(310), "0.30 GiB"),
        ([mib(2048)], mib(1550), "1.51 GiB"),
        ([mib(2048)], mib(30), "30 MiB"),
        ([mib(2048)], 0, "0.00 GiB"),
        ([mib(600), None], mib(93), "93 MiB"),
        ([mib(600)], 100, "100 B"),
        ([None], None, "unknown"),
    ],
)
def test_sizes_in_the_unit_of_the_whole_plan(
    counts: list[int | None], count: int | None, expected: str
) -> None:
    assert scale_for(counts).size(count) == expected


def test_the_account_of_a_small_budget_tells_small_models_apart() -> None:
    sample = snapshot()
    account = Account(mib(2500), mib(310), 0, mib(2190))
    small = replace(sample, plan=replace(sample.plan, account=account))
    line = status_text(status_json(small, NOW)).splitlines()[3]
    assert line.startswith("memory   2.44 GiB budget   0.30 held   0.00 reserved   2.14 free   ")


def test_the_unit_is_the_budgets() -> None:
    giant = Verdict("giant", Outcome.BLOCKED, Reason.NEVER_FITS, mib(7630))
    text = plan_text(Plan(1, 1, Account(mib(540), 0, 0, mib(540)), (), (giant,)), SOURCE)
    assert "memory   540 MiB budget   0 held   0 reserved   540 free" in text
    assert "needs 7630 MiB" in text


def test_status_text() -> None:
    assert_golden("status.txt", status_text(status_json(snapshot(), NOW)) + "\n")


def test_status_text_of_a_refused_manifest() -> None:
    assert_golden("status-refused.txt", status_text(status_json(refused_snapshot(), NOW)) + "\n")


@pytest.mark.parametrize("model", ["chat", "coder", "flaky", "old", "vision"])
def test_explain_text(model: str) -> None:
    assert_golden(f"explain-{model}.txt", explain_text(status_json(snapshot(), NOW), model) + "\n")


def with_facts(model: str, **facts: Any) -> dict[str, Any]:
    document = status_json(snapshot(), NOW)
    found = next(m for m in document["models"] if m["name"] == model)
    assert facts.keys() <= found.keys()
    found.update(facts)
    return document


def test_explain_says_a_long_reason_once() -> None:
    why = "the weights /models/vision.gguf do not exist"
    verdict = {
        **status_json(snapshot(), NOW)["models"][5]["verdict"],
        "reason": "NotStartable",
        "detail": why,
    }
    conditions = [
        {**status_json(snapshot(), NOW)["models"][0]["conditions"][0], "message": f"blocked: {why}"},
        {**status_json(snapshot(), NOW)["models"][0]["conditions"][1], "message": why},
    ]
    document = with_facts("vision", verdict=verdict, conditions=conditions, failures=2, last_error=why)
    text = explain_text(document, "vision")
    assert text.splitlines()[1] == f"  why          NotStartable: {why}"
    assert text.count(why) == 1
    assert "  failures     2 in a row, the last: see above" in text
    assert text.count("see above") == 3


def test_explain_of_a_model_evicted_by_hand_says_so() -> None:
    detail = "evicted by hand; a request or `reconcile load vision` brings it back"
    verdict = {"model": "vision", "outcome": "cold", "reason": "Dismissed", "detail": detail}
    document = with_facts(
        "vision", state="cold", dismissed=True, verdict={**verdict, "size": 1, "retry_in": None}
    )
    assert f"  why          Dismissed: {detail}\n" in explain_text(document, "vision")


@pytest.mark.parametrize(
    ("outcome", "reason", "retry_in", "again"),
    [
        ("cold", "NotWanted", 0.0, "; tried again at the next request"),
        ("cold", "NotWanted", 0.04, "; tried again at the next request"),
        ("cold", "NotWanted", None, "; tried again at the next request"),
        ("cold", "NotWanted", 45.0, "; tried again at the next request, in 45s at the earliest"),
        ("cold", "BackingOff", 45.0, "; tried again at the next request, in 45s at the earliest"),
        ("blocked", "BackingOff", 45.0, "; tried again in 45s"),
        ("load", "Warm", 0.0, "; tried again now"),
        ("blocked", "InsufficientMemory", None, ""),
    ],
)
def test_explain_says_when_a_failed_model_is_tried_again(
    outcome: str, reason: str, retry_in: float | None, again: str
) -> None:
    verdict = {"model": "flaky", "outcome": outcome, "reason": reason, "detail": "", "size": 1}
    document = with_facts(
        "flaky", verdict={**verdict, "retry_in": retry_in}, retry_in=retry_in, last_error="exit 1"
    )
    assert f"  failures     3 in a row (Crashed), the last: exit 1{again}\n" in explain_text(
        document, "flaky"
    )


def test_a_model_that_served_nothing_was_not_used() -> None:
    document = with_facts("chat", served=0, idle=840.0)
    row = next(line for line in status_text(document).splitlines() if line.startswith("chat "))
    assert "14m ago" not in row
    assert "last used" not in explain_text(document, "chat")


def test_the_table_shows_what_is_measured_and_the_account_what_is_charged() -> None:
    lines = status_text(status_json(snapshot(), NOW)).splitlines()
    assert "6.6 held" in lines[3]
    head = next(line for line in lines if line.startswith("MODEL"))
    assert "MEASURED" in head
    assert "HELD" not in head


def test_explain_of_a_stranger_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        explain_text(status_json(snapshot(), NOW), "nobody")


@pytest.mark.parametrize(("state", "progress", "expected"), STATES)
def test_action_in_flight(state: State, progress: Progress | None, expected: str) -> None:
    document = status_json(replace(snapshot(), state=state, progress=progress), NOW)
    assert action_text(document) == expected


def test_a_drain_without_an_end_has_no_deadline() -> None:
    """JSON has no infinity."""
    state = Evicting(Evict("chat", 1, 2, 1, Reason.REMOVED, drain=True), NOW - 2, math.inf)
    document = status_json(replace(snapshot(), state=state), NOW)
    assert document["action"]["deadline_in"] is None
    jsonschema.Draft202012Validator(schemas.status_schema()).validate(
        json.loads(json.dumps(document, allow_nan=False))
    )


def test_a_halted_loop_says_why() -> None:
    document = status_json(replace(snapshot(), state=Halted("stopped by a person")), NOW)
    assert (document["action"], document["halted"]) == (None, "stopped by a person")
    assert action_text(document) == "none, halted: stopped by a person"


def test_model_states() -> None:
    document = status_json(snapshot(), NOW)
    assert {m["name"]: m["state"] for m in document["models"]} == {
        "chat": "ready",
        "coder": "loading",
        "embed": "ready",
        "flaky": "failing",
        "old": "ready",
        "vision": "blocked",
    }
    evicting = status_json(replace(snapshot(), state=STATES[2][0]), NOW)
    assert {m["name"]: m["state"] for m in evicting["models"]}["chat"] == "evicting"


def test_status_json_has_the_facts_of_a_model() -> None:
    models = {m["name"]: m for m in status_json(snapshot(), NOW)["models"]}
    coder, chat, flaky, old = (models[name] for name in ("coder", "chat", "flaky", "old"))
    assert (coder["pid"], coder["port"], coder["waiting"], coder["oldest_wait"]) == (4242, 18102, 2, 12.5)
    assert (coder["load_seconds"], coder["log"]) == (18.2, "/state/logs/coder.log")
    assert (chat["held"], chat["warm"], chat["size"]) == (6 << 30, 4 << 30, 6 << 30)
    assert (chat["aliases"], chat["idle"], chat["served"]) == (["claude", "gpt-4o"], 840.0, 12)
    assert (flaky["failures"], flaky["retry_in"], flaky["held"]) == (3, 45.0, 0)
    assert flaky["verdict"]["reason"] == "BackingOff"
    assert (old["residency"], old["held"], old["engine"]) == (None, None, None)
    assert (models["vision"]["wanted"], chat["wanted"]) == (True, False)


def test_two_processes_of_one_model_are_counted_together() -> None:
    base = snapshot()
    second = replace(base.world.observation.instances[0], digest="older", pid=9, ready=True)
    observation = replace(base.world.observation, instances=(second, *base.world.observation.instances))
    document = status_json(replace(base, world=replace(base.world, observation=observation)), NOW)
    chat = next(m for m in document["models"] if m["name"] == "chat")
    assert (chat["pid"], chat["held"]) == (4100, 12 << 30)


def test_no_secret_and_no_command_line_is_shown() -> None:
    for document in (status_json(snapshot(), NOW), plan_json(design_plan(), SOURCE)):
        text = json.dumps(document)
        assert SECRET not in text
        assert "HF_TOKEN" not in text
        assert "--api-key" not in text


@pytest.mark.parametrize(
    ("kind", "status", "fine"),
    [
        ("Ready", Truth.TRUE, True),
        ("Ready", Truth.FALSE, False),
        ("Ready", Truth.UNKNOWN, False),
        ("Degraded", Truth.TRUE, False),
        ("Degraded", Truth.UNKNOWN, False),
        ("Degraded", Truth.FALSE, True),
        ("Progressing", Truth.TRUE, True),
        ("ManifestValid", Truth.FALSE, False),
    ],
)
def test_which_conditions_need_attention(kind: str, status: Truth, fine: bool) -> None:
    made = condition(kind, status, "Some")
    assert condition_is_fine({"type": made.type, "status": made.status.value}) is fine


def test_a_process_that_is_only_left_over_is_failing() -> None:
    base = snapshot()
    broken = replace(base.world.observation.instances[0], ready=False, broken=True)
    observation = replace(base.world.observation, instances=(broken,))
    document = status_json(replace(base, world=replace(base.world, observation=observation)), NOW)
    assert next(m["state"] for m in document["models"] if m["name"] == "chat") == "failing"


@pytest.mark.parametrize("kind", ["plan", "status"])
def test_committed_schemas_are_the_generated_ones(kind: str) -> None:
    """Write them with `python -m reconciler.render.schemas --write`."""
    generated = schemas.plan_schema() if kind == "plan" else schemas.status_schema()
    jsonschema.Draft202012Validator.check_schema(generated)
    assert json.loads((SCHEMAS / f"{kind}.v1.json").read_text(encoding="utf-8")) == generated


def test_documents_conform_to_their_schemas() -> None:
    plans = [plan_json(plan, SOURCE) for plan in (design_plan(), *PLANS.values())]
    statuses = [status_json(s, NOW) for s in (snapshot(), refused_snapshot())]
    for schema, documents in ((schemas.plan_schema(), plans), (schemas.status_schema(), statuses)):
        validator = jsonschema.Draft202012Validator(schema)
        for document in documents:
            plain = json.loads(json.dumps(document))
            validator.validate(plain)
            with pytest.raises(jsonschema.ValidationError):
                validator.validate({**plain, "formatVersion": 2})


def test_plan_json_counts_outcomes() -> None:
    document = plan_json(design_plan(), SOURCE)
    assert document["formatVersion"] == 1
    assert document["manifest"] == {
        "path": "manifests/",
        "generation": 7,
        "git": {"commit": "3f2c1ab", "dirty": False},
    }
    assert document["summary"] == {"load": 1, "evict": 1, "reload": 0, "keep": 1, "blocked": 1, "cold": 0}
    assert [(s["number"], s["action"], s["model"], s["for_model"]) for s in document["steps"]] == [
        (1, "evict", "qwen3-30b", "coder-32b"),
        (2, "load", "coder-32b", None),
    ]
    assert document["changes"] is True
    assert plan_json(quiet_plan(), SOURCE)["changes"] is False


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_and_reason_can_be_shown(outcome: Outcome) -> None:
    for reason in Reason:
        plan = Plan(1, 1, Account(), (), (Verdict("m", outcome, reason),))
        assert reason.value in plan_text(plan, SOURCE)
        assert plan_json(plan, SOURCE)["verdicts"][0]["outcome"] == outcome.name.lower()


@pytest.mark.parametrize(
    ("reason", "said"), [(Reason.NOT_WANTED, "2 models match"), (Reason.NEVER_FITS, "1 model matches")]
)
def test_a_cold_model_that_could_not_be_loaded_matches_nothing(reason: Reason, said: str) -> None:
    kept = Verdict("a", Outcome.KEEP, Reason.WARM, mib(10))
    made = Plan(
        5, 1, Account(mib(100), 0, 0, mib(100)), (), (kept, Verdict("b", Outcome.COLD, reason, mib(500)))
    )
    end = "." if reason is Reason.NOT_WANTED else ", 1 cold that could not be loaded."
    assert plan_text(made, SOURCE).splitlines()[-1] == f"No changes. {said} generation 5{end}"
