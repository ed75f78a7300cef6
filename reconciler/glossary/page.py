"""`python -m reconciler.glossary.page --check | --write`: docs/words.md, all words on one page."""

import sys
from pathlib import Path
from typing import Final

from reconciler.committed import keep
from reconciler.glossary import Word, all_words
from reconciler.glossary.words import Kind

#: Where the committed page lies in a checkout.
PATH: Final = Path(__file__).parents[2] / "docs" / "words.md"
_HEADS: Final = {
    Kind.VERDICT: "Reasons: why a model is loaded, kept, unloaded or stays out",
    Kind.FAILURE: "Kinds of failures",
    Kind.CONDITION: "Conditions in `reconcile status`",
    Kind.ERROR: "Errors of the gateway (`error.code`)",
    Kind.FAULT: "Faults in a manifest (in brackets at the end of the message)",
}
_TOP: Final = """# Words

Every word that `reconcile` says without explaining it there: what it means, and what helps. `reconcile explain WORD`
says the same in a terminal. `NAME` stands for the model. Made by `python -m reconciler.glossary.page --write`.
"""


def page() -> str:
    """Return the page."""
    parts = [_TOP]
    for kind, head in _HEADS.items():
        rows = [_row(word) for word in all_words() if word.kind is kind]
        parts += [
            f"\n## {head}\n",
            "| word | means | what helps | more |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _row(word: Word) -> str:
    more = f"[{word.page.partition('#')[0]}]({word.page})"
    return f"| `{word.name}` | {_cell(word.means)} | {_cell(word.helps)} | {more} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the page, or check that the committed one is this; return the exit status."""
    return keep({PATH: page()}, "reconciler.glossary.page", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
