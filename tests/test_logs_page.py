"""docs/logs.md has every event that is logged, with its level and its fields, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEVELS = {"info": "info", "warning": "warning", "error": "error", "exception": "error"}
ROW = re.compile(r"^\| `(.+)` \| (\w+) \|\s*([^|]*?)\s*\|", re.MULTILINE)
#: These never become a field.
OF_STRUCTLOG = {"exc_info", "data"}
#: What the states of models are called is put together where it is logged.
STATES = {
    "state saved": "info",
    "state restored": "info",
    "state lost": "warning",
    "state dropped": "warning",
    "state off": "warning",
}
Call = tuple[str, str, set[str]]


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((ROOT / "reconciler").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if not isinstance(called, ast.Attribute) or called.attr not in LEVELS:
                continue
            if isinstance(called.value, ast.Name) and called.value.id in ("log", "_log"):
                assert isinstance(node, ast.Call)
                yield f"{path.name}:{node.lineno}", node


def logged() -> Iterator[Call]:
    """Return event, level and the fields that are written where it is logged."""
    for where, call in calls():
        assert isinstance(call.func, ast.Attribute)
        event = call.args[0]
        assert isinstance(event, ast.Constant), f"{where}: an event is always the same text"
        fields = {k.arg for k in call.keywords if k.arg is not None} - OF_STRUCTLOG
        for keyword in call.keywords:
            if keyword.arg == "data" and isinstance(keyword.value, ast.Dict):
                fields |= {str(key.value) for key in keyword.value.keys if isinstance(key, ast.Constant)}
        yield str(event.value), LEVELS[call.func.attr], fields


def listed() -> dict[str, tuple[str, set[str]]]:
    text = (ROOT / "docs" / "logs.md").read_text("utf-8")
    rows = ROW.findall(text)
    found = {event: (level, {f.strip() for f in fields.split(",")} - {""}) for event, level, fields in rows}
    assert len(found) == len(rows), "an event stands there twice"
    return found


def test_every_event_is_listed_with_its_level_and_fields() -> None:
    page = listed()
    for event, level, fields in logged():
        assert event in page, f"docs/logs.md lacks {event!r}"
        assert page[event][0] == level, event
        assert fields <= page[event][1], (event, fields - page[event][1])


def test_no_other_event_is_listed() -> None:
    known = {event for event, _, _ in logged()}
    page = listed()
    assert set(page) - known == set(STATES)
    assert {event: page[event][0] for event in STATES} == STATES


def test_states_of_models_are_called_so() -> None:
    text = (ROOT / "reconciler" / "loop" / "states.py").read_text("utf-8")
    kinds = set(re.findall(r'"(state-[a-z]+)"', text))
    assert {kind.replace("-", " ") for kind in kinds} == set(STATES)


def test_lines_of_a_models_life_have_the_same_fields() -> None:
    page = listed()
    for event in ("load", "evict"):
        assert {"model", "reason", "bytes"} <= page[event][1]
    for event in ("loaded", "evicted", "sleeps", "load failed", "model died", "model hangs"):
        assert {"model", "reason", "seconds", "bytes"} <= page[event][1], event
