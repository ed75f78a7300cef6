"""docs/laws.md names tests; each must be there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_every_test_the_page_of_laws_names_exists() -> None:
    named = re.findall(
        r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "laws.md").read_text(encoding="utf-8")
    )
    assert len(named) > 25
    missing = [
        f"{file}::{name}"
        for file, name in named
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_every_law_names_a_test_or_a_contract() -> None:
    rows = [
        row
        for row in (ROOT / "docs" / "laws.md").read_text(encoding="utf-8").splitlines()
        if row.startswith("| ") and not row.startswith(("| law", "| ---"))
    ]
    assert len(rows) == 30
    assert all("`tests/" in row for row in rows)
