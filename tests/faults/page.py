"""The table of docs/faults.md: `PYTHONPATH=tests python -m faults.page --write` makes it from the cells."""

import sys
from pathlib import Path
from typing import Final

from faults.cells import Cell, every_cell

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
BEGIN: Final = "<!-- cells: made by `PYTHONPATH=tests python -m faults.page --write` -->\n"
END: Final = "<!-- end of cells -->\n"


def table(cells: tuple[Cell, ...]) -> str:
    """Return the cells as tables, one for each fault, in their order."""
    lines = []
    for fault in dict.fromkeys(cell.fault for cell in cells):
        lines += ["", f"**{fault}**", "", "| while | what you see |", "| --- | --- |"]
        for cell in cells:
            if cell.fault == fault:
                lines.append(f"| {cell.state}{' (on demand)' if cell.slow else ''} | {cell.sees} |")
    return "\n".join([*lines, ""]) + "\n"


def made(text: str) -> str:
    """Return the page with its tables anew. Raises ValueError without the two markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} needs the lines {BEGIN!r} and {END!r}")
    cells = every_cell()
    on_demand = sum(cell.slow for cell in cells)
    head = f"\n{len(cells)} cells, {on_demand} of them on demand.\n"
    return before + begin + head + table(cells) + end + after


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        PAGE.write_text(made(text), encoding="utf-8")
    elif made(text) != text:
        sys.exit(f"{PAGE.name} does not say what the cells do: run it with --write")
