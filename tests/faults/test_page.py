"""docs/faults.md lists the cells as they are."""

from faults.cells import every_cell
from faults.page import PAGE, made


def test_the_page_lists_every_cell_with_what_the_user_sees() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert made(text) == text, "PYTHONPATH=tests python -m faults.page --write"


def test_what_a_cell_says_is_a_sentence() -> None:
    assert [cell.id for cell in every_cell() if not cell.sees.endswith(".") or "|" in cell.sees] == []
