"""What is wrong with a manifest, said in full: where, what, and what to write instead."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

#: Columns of a source line that are shown around the caret.
SNIPPET_WIDTH: Final = 120
#: Characters of a user's text that are repeated in a message.
QUOTE_LENGTH: Final = 80

_SECRET = re.compile(
    r"""(?i)([\w-]*(?:key|token|secret|password|passwd)s?(?:"|')?(?:\s*[:=,]\s*|\s+)[\["']*)([^\s"',\]\[{}]+)"""
)
#: Settings of ours that look like the above and are none.
_NO_SECRET = re.compile(r"(?i)(max|min|num|n|ctx|context|per)[_-]?tokens?\b|tokens?[_-](per|max)")


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One thing wrong at one place. `line` and `col` count from 1, in characters.

    `line` 0 means the file as a whole: it is missing, unreadable or empty.
    """

    file: str
    line: int
    col: int
    code: str
    message: str
    hint: str = ""
    #: The source line with secrets masked; shown with a caret under `col`.
    snippet: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.col}" if self.line else self.file
        return f"{place}: error: {self.message} [{self.code}]"

    def render(self) -> str:
        """Return the diagnostic as people read it: the place, the source line with a caret, and the help."""
        parts = [str(self)]
        if self.line and self.snippet.strip():
            text, offset = _window(self.snippet, self.col - 1)
            gutter = f"{self.line:>5} | "
            pad = sum(_width(c) for c in text[:offset])
            parts += [gutter + text, " " * (len(gutter) - 2) + "| " + " " * pad + "^"]
        if self.hint:
            parts.append(f"help: {self.hint}")
        return "\n".join(parts)


class ManifestError(Exception):
    """The manifest is refused. Carries all its diagnostics, sorted by file, line and column.

    `also_read` names files besides the manifest's own that were looked at: a change of them may cure it.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], also_read: Iterable[str] = ()) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(sorted(set(diagnostics)))
        self.also_read = tuple(also_read)
        super().__init__(self.render())

    def render(self) -> str:
        """Return all diagnostics as text, an empty line between two."""
        return "\n\n".join(d.render() for d in self.diagnostics)

    def __repr__(self) -> str:
        return f"ManifestError({len(self.diagnostics)} diagnostics)"


def quoted(text: str) -> str:
    """Return `text` in double quotes, cut to a readable length, nothing in it that a terminal would obey."""
    cut = text if len(text) <= QUOTE_LENGTH else text[: QUOTE_LENGTH - 1] + "…"
    return '"' + "".join(_visible(c) for c in cut) + '"'


def character_name(char: str) -> str:
    """Return `U+00A0 NO-BREAK SPACE` for a character that cannot be seen."""
    names = {"\t": "tab", "\0": "NUL", "\r": "CARRIAGE RETURN", "\ufeff": "BYTE ORDER MARK"}
    name = names.get(char) or unicodedata.name(char, "control character")
    return f"U+{ord(char):04X} {name}"


def looks_secret(text: str) -> bool:
    """Tell whether a flag or variable name announces a secret (`--api-key`, `HF_TOKEN`)."""
    return bool(_SECRET.search(f"{text} x")) and not _NO_SECRET.search(text)


def masked(line: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return `line` with the 0-based spans, and whatever follows a name like `api_key`, replaced by asterisks."""
    chars = list(line)
    found = [m.span(2) for m in _SECRET.finditer(line) if not _NO_SECRET.search(m.group(1))]
    for start, end in [*spans, *found]:
        for i in range(max(start, 0), min(end, len(chars))):
            chars[i] = "*"
    return "".join(chars)


def _visible(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _window(line: str, column: int) -> tuple[str, int]:
    """Cut a long line around `column`; return the text and the column in it. Every character takes its own place."""
    start = max(0, column - SNIPPET_WIDTH // 2) if len(line) > SNIPPET_WIDTH else 0
    text = line[start : start + SNIPPET_WIDTH]
    return "".join(" " if c == "\t" else c if c.isprintable() else "·" for c in text), column - start


def _width(char: str) -> int:
    """Return the columns a terminal gives to a character."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
