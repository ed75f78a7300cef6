"""Every word that the program says without explaining it there: what it means, and what helps."""

import difflib

from reconciler.glossary.conditions import CONDITIONS
from reconciler.glossary.errors import errors
from reconciler.glossary.failures import failures
from reconciler.glossary.faults import FAULTS
from reconciler.glossary.verdicts import VERDICTS
from reconciler.glossary.words import Word

__all__ = ["Word", "all_words", "find", "nearest"]


def all_words() -> tuple[Word, ...]:
    """Return every word, one kind after another, each kind in the order in which its page shows it."""
    return (*VERDICTS, *failures(), *CONDITIONS, *errors(), *FAULTS)


def find(text: str) -> tuple[Word, ...]:
    """Return what a word means: more than one where two kinds share it, none if nobody says it.

    Case does not count, and `-` is as good as `_`, so that what was read aloud is found, too.
    """
    return tuple(word for word in all_words() if _folded(word.name) == _folded(text))


def nearest(text: str) -> str | None:
    """Return the word that is meant by one that is not known, or None."""
    names = {_folded(word.name): word.name for word in all_words()}
    close = difflib.get_close_matches(_folded(text), sorted(names), n=1, cutoff=0.75)
    return names[close[0]] if close else None


def _folded(text: str) -> str:
    return text.strip().strip("[]`").lower().replace("-", "_")
