"""Golden files: whole outputs kept as text under tests/golden, so that a change is reviewed as a user would see it."""

import os
from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def assert_golden(name: str, text: str) -> None:
    """Compare `text` with the file `name`. With UPDATE_GOLDEN=1 in the environment write the file instead."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing: run once with UPDATE_GOLDEN=1 and read what it wrote"
    assert text == path.read_text(encoding="utf-8"), (
        f"differs from tests/golden/{name}; UPDATE_GOLDEN=1 rewrites it"
    )
