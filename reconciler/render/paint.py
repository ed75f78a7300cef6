"""Colour for terminals: five codes, and nothing at all unless asked."""

from collections.abc import Callable
from typing import Final

Paint = Callable[[str, str], str]

_CODES: Final = {"green": "32", "red": "31", "yellow": "33", "bold": "1", "dim": "2"}


def painter(colour: bool) -> Paint:
    """Return a function (text, colour name) -> text that colours, or one that leaves the text alone."""
    if not colour:
        return lambda text, _: text
    return lambda text, name: f"\x1b[{_CODES[name]}m{text}\x1b[0m" if text else text


def one_line(text: str) -> str:
    """Return text that cannot break a line or drive a terminal: control characters are spelled (`\\x1b`)."""
    return "".join(c if c.isprintable() else " " if c in "\n\t" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
