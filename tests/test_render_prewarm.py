"""What people and programs read of the models that were loaded before anybody asked."""

from dataclasses import replace

import jsonschema
import pytest

from board_samples import NOW, snapshot
from reconciler.board import PrewarmCount, PrewarmFigures, Snapshot
from reconciler.core.types import Policy, Prewarm, Prewarms
from reconciler.render import schemas
from reconciler.render.status_document import status_json
from reconciler.render.status_text import status_text

COUNTS = (
    PrewarmCount("chat", begun=5, used=3, in_vain=1, broken_off=1),
    PrewarmCount("vision", begun=3, in_vain=2),
)


def desk(
    counts: tuple[PrewarmCount, ...] = COUNTS,
    mode: Prewarm = Prewarm.FULL,
    hour: int = 20,
    waited_for: int = 9,
) -> Snapshot:
    """The sample, on which models were loaded in advance: one two hours ago, two lately; `vision` has to wait."""
    base = snapshot()
    manifest = replace(base.applied.manifest, policy=Policy.LRU, prewarm=mode, prewarm_per_hour=hour)
    prewarms = Prewarms((NOW - 7200, NOW - 900, NOW - 60), (("chat", NOW - 1), ("vision", NOW + 600)))
    return replace(
        base,
        applied=replace(base.applied, manifest=manifest),
        world=replace(base.world, prewarms=prewarms),
        prewarmed=PrewarmFigures(counts, waited_for),
    )


def test_the_document_has_the_sums_and_each_model_and_conforms() -> None:
    document = status_json(desk(), NOW)
    jsonschema.validate(document, schemas.status_schema())
    assert document["policy"] == "lru"
    assert document["prewarm"] == {
        "mode": "full",
        "per_hour": 20,
        "last_hour": 2,
        "begun": 8,
        "used": 3,
        "in_vain": 3,
        "broken_off": 1,
        "precision": 0.5,
        "recall": 0.25,
    }
    models = {m["name"]: m["prewarm"] for m in document["models"]}
    assert models["chat"] == {"begun": 5, "used": 3, "in_vain": 1, "broken_off": 1, "again_in": None}
    assert models["vision"] == {"begun": 3, "used": 0, "in_vain": 2, "broken_off": 0, "again_in": 600.0}
    assert models["coder"] is None


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (
            desk(),
            (
                "full: 8 begun in advance, 3 used, 3 in vain, 1 broken off; "
                "25% of all loads that somebody wanted were begun so"
            ),
        ),
        (
            desk(COUNTS[:1], Prewarm.FREE, 2, 3),
            "; 50% of all loads that somebody wanted were begun so; no more this hour (2 of 2)",
        ),
        (desk(COUNTS[1:], Prewarm.OFF, 2, 0), "prewarm  off: 3 begun in advance, 0 used, 2 in vain"),
    ],
)
def test_one_line_says_it_to_people(made: Snapshot, line: str) -> None:
    lines = status_text(status_json(made, NOW)).splitlines()
    [found] = [text for text in lines if text.startswith("prewarm")]
    assert found.endswith(line)


def test_who_loads_nothing_in_advance_is_told_nothing_of_it() -> None:
    document = status_json(snapshot(), NOW)
    assert "prewarm" not in status_text(document)
    assert (document["prewarm"]["precision"], document["prewarm"]["recall"]) == (None, None)
