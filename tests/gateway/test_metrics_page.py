"""docs/metrics.md lists every metric there is, as the code describes it."""

import os
import re
from pathlib import Path

from reconciler.counts import MOST_MODELS
from reconciler.gateway.metrics import counted, machine, models, process, run
from reconciler.gateway.metrics.family import Family
from reconciler.gateway.metrics.page import FAMILIES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
LIST = re.compile(r"(<!-- metrics: .*?-->\n).*(<!-- end of metrics -->)", re.DOTALL)
GROUPS = (
    ("The loop", run.FAMILIES),
    ("The machine", machine.FAMILIES),
    ("Models, as they are", models.FAMILIES),
    ("Models, counted since the start", counted.FAMILIES),
    ("The manager's process", process.FAMILIES),
)


def row(family: Family) -> str:
    told_apart = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {told_apart} | {family.help} |"


def listing() -> str:
    parts = []
    for title, families in GROUPS:
        rows = "\n".join(row(family) for family in families)
        parts.append(f"\n### {title}\n\n| metric | kind | labels | |\n|---|---|---|---|\n{rows}\n")
    return "".join(parts) + "\n"


def test_the_page_lists_what_is_exported() -> None:
    assert [f for _, families in GROUPS for f in families] == list(FAMILIES)
    text = PAGE.read_text("utf-8")
    wanted = LIST.sub(lambda found: found[1] + listing() + found[2], text)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(wanted, "utf-8")
        text = wanted
    assert text == wanted, "docs/metrics.md is old: UPDATE_GOLDEN=1 rewrites its list"


def test_the_page_says_how_many_models_are_told_apart() -> None:
    assert f"The first {MOST_MODELS}\n  models by name" in PAGE.read_text("utf-8")


def test_expressions_of_the_page_use_metrics_that_exist() -> None:
    known = {family.name for family in FAMILIES}
    used = set(re.findall(r"\b(?:reconcile|process)_\w+", PAGE.read_text("utf-8")))
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in used} <= known | {"reconcile_"}
