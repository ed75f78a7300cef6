"""What people and programs read of queues, gates and leases."""

import json
from dataclasses import replace

import jsonschema
import pytest

from board_samples import NOW, snapshot
from golden_files import assert_golden
from reconciler.board import Snapshot
from reconciler.core.types import Demand
from reconciler.leases import Admission, GateTraffic, Head, Hold, QueueTraffic, Traffic
from reconciler.manifest.applied import Rule, Virtual, When
from reconciler.render import schemas
from reconciler.render.explain_text import explain_text
from reconciler.render.status_document import status_json
from reconciler.render.status_text import status_text
from reconciler.render.traffic_text import gate_text, queue_text

HELD = Hold("00aa", "embed", "nightly index", NOW - 60, NOW + 1740, granted=NOW - 58)
WAITING = Hold("00bb", "coder", "x\x1b[31m", NOW - 5, NOW + 595, waits_since=NOW - 5)
ENDED = Hold("00cc", "chat", "old job", NOW - 99, NOW + 1, ended="its time was over", ended_at=NOW - 9)
CODER = QueueTraffic(
    model="coder",
    active=0,
    quiet=1,
    waiting=3,
    gated=0,
    held=0,
    oldest=NOW - 12.5,
    head=Head("vip", 750, NOW - 2, "load"),
    max=64,
    timeout=120.0,
    concurrency=2,
    gates=("heavy", "llm"),
    oldest_place=3,
)
EMBED = replace(
    CODER,
    model="embed",
    active=1,
    quiet=0,
    waiting=0,
    gated=2,
    oldest=NOW - 4,
    head=Head("", 500, NOW - 4, "gate llm"),
    concurrency=None,
    gates=("llm",),
    oldest_place=1,
)
GATES = (GateTraffic("heavy", 1, (), 0), GateTraffic("llm", 1, ("chat",), 2))
TRAFFIC = Traffic(GATES, (CODER, EMBED), (ENDED, HELD, WAITING), granted=40, ended=39)


def crowded() -> Snapshot:
    """The sample, with people at the doors."""
    base = snapshot()
    demands = (
        Demand("coder", waiting=4, oldest=NOW - 12.5),
        Demand("embed", active=1, gated=2, held=1),
        Demand("vision", wanted=True),
    )
    observation = replace(base.world.observation, demands=demands)
    admissions = {"coder": Admission(2, ("heavy", "llm")), "embed": Admission(None, ("llm",))}
    return replace(
        base, world=replace(base.world, observation=observation), traffic=TRAFFIC, admissions=admissions
    )


def test_status_text() -> None:
    assert_golden("status-traffic.txt", status_text(status_json(crowded(), NOW)) + "\n")


@pytest.mark.parametrize("model", ["chat", "coder", "embed"])
def test_explain_text(model: str) -> None:
    assert_golden(f"explain-{model}-traffic.txt", explain_text(status_json(crowded(), NOW), model) + "\n")


def test_the_document_has_it_all_and_conforms() -> None:
    document = status_json(crowded(), NOW)
    models = {m["name"]: m for m in document["models"]}
    embed = models["embed"]
    assert (embed["oldest_wait"], models["coder"]["oldest_wait"]) == (4.0, 12.5)
    assert (embed["active"], embed["waiting"], embed["gated"], embed["leases"]) == (1, 0, 2, 1)
    assert models["coder"]["queue"] == {
        "max": 64,
        "timeout": 120.0,
        "concurrency": 2,
        "gates": ["heavy", "llm"],
        "quiet": 1,
        "oldest_place": 3,
        "next": {"owner": "vip", "priority": 750, "waits": 2.0, "waits_for": "load"},
    }
    assert models["flaky"]["queue"] == {
        "max": 64,
        "timeout": 120.0,
        "concurrency": None,
        "gates": [],
        "quiet": 0,
        "oldest_place": 0,
        "next": None,
    }
    assert models["old"]["queue"] is None
    assert document["gates"][1] == {"name": "llm", "limit": 1, "inside": ["chat"], "waiting": 2}
    assert [(x["id"], x["state"], x["ends_in"], x["reason"]) for x in document["leases"]] == [
        ("00cc", "ended", 0.0, "its time was over"),
        ("00aa", "held", 1740.0, ""),
        ("00bb", "waiting", 595.0, ""),
    ]
    assert document["requests"] == {"granted": 40, "ended": 39}
    plain = json.loads(json.dumps(document, allow_nan=False))
    jsonschema.Draft202012Validator(schemas.status_schema()).validate(plain)


def test_virtual_models_are_shown() -> None:
    rules = (Rule(When(code=True), ("coder",)), Rule(When(), ("chat", "coder")))
    sample = snapshot()
    applied = replace(sample.applied, virtual={"auto": Virtual("auto", rules), "a": Virtual("a", rules[:1])})
    document = status_json(replace(sample, applied=applied), NOW)
    assert document["virtual"] == [
        {"name": "a", "models": ["coder"]},
        {"name": "auto", "models": ["coder", "chat"]},
    ]
    jsonschema.Draft202012Validator(schemas.status_schema()).validate(json.loads(json.dumps(document)))
    assert "virtual  a (coder)   auto (coder, chat)\n" in status_text(document)
    assert "virtual" not in status_text(status_json(sample, NOW))


def test_without_a_book_there_is_nothing_to_say() -> None:
    document = status_json(snapshot(), NOW)
    assert (document["gates"], document["leases"]) == ([], [])
    assert "gates" not in status_text(document)
    assert "LEASE" not in status_text(document)


def test_a_model_that_is_held_is_in_use_now() -> None:
    held = status_json(crowded(), NOW)
    held["models"] = [{**m, "active": 0, "gated": 0} for m in held["models"] if m["name"] == "embed"]
    row = next(line for line in status_text(held).splitlines() if line.startswith("embed"))
    assert "1 lease " in row
    assert " now " in row


@pytest.mark.parametrize(
    ("inside", "waiting", "text"),
    [((), 0, "0 of 2"), (("a",), 0, "1 of 2 (a)"), (("a", "b"), 5, "2 of 2 (a, b), 5 waiting")],
)
def test_a_gate(inside: tuple[str, ...], waiting: int, text: str) -> None:
    assert gate_text({"name": "g", "limit": 2, "inside": inside, "waiting": waiting}) == text


@pytest.mark.parametrize(
    ("waits_for", "words"),
    [
        ("load", "for the model to be loaded"),
        ("place", "for one that is served to end"),
        ("gate g", "for gate g;"),
    ],
)
def test_who_is_next(waits_for: str, words: str) -> None:
    first = {"owner": "", "priority": 500, "waits": 3.1, "waits_for": waits_for}
    text = queue_text({"queue": {"next": first, "oldest_place": 1, "max": 8, "timeout": 90.0}})
    assert text.startswith("next is a request of priority 500 that waits 3.1s for")
    assert words in text
    assert text.endswith("at most 8 wait, 90s each")
