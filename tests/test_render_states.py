"""What people and programs read of saved states."""

from dataclasses import replace

import jsonschema
import pytest

from board_samples import NOW, snapshot
from reconciler.board import SavedState
from reconciler.render import schemas
from reconciler.render.explain_text import explain_text
from reconciler.render.status_document import status_json

RESTORED = "state restored: 1562 tokens, 34 MiB in 0.05 s"


@pytest.mark.parametrize(
    ("kept", "line"),
    [
        (
            SavedState(1562, 36014248, NOW - 60, RESTORED),
            f"kept: 1562 tokens, 34 MiB, saved 60s ago; {RESTORED}",
        ),
        (SavedState(None, 36014248, NOW - 60), "kept: 34 MiB, saved 60s ago"),
        (SavedState(note="not kept: it has\nsliding windows"), "not kept: it has sliding windows"),
        (SavedState(), "nothing is kept yet"),
        (None, None),
    ],
)
def test_explain_says_what_is_kept_and_what_became_of_it(kept: SavedState | None, line: str | None) -> None:
    board = replace(snapshot(), states={} if kept is None else {"chat": kept})
    document = status_json(board, NOW)
    jsonschema.validate(document, schemas.status_schema())
    lines = [text for text in explain_text(document, "chat").splitlines() if text.startswith("  state  ")]
    assert lines == ([] if line is None else [f"  {'state':<12} {line}"])


def test_programs_get_the_age_and_not_the_time() -> None:
    board = replace(snapshot(), states={"chat": SavedState(7, 100, NOW - 3.5, "x")})
    found = {model["name"]: model["saved"] for model in status_json(board, NOW)["models"]}
    assert found.pop("chat") == {"tokens": 7, "bytes": 100, "age": 3.5, "note": "x"}
    assert set(found.values()) == {None}
