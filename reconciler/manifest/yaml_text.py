"""From the bytes of a file to text: the encoding, and the characters that nobody sees but YAML stumbles over."""

import codecs
import re
from typing import Final

from reconciler.manifest.diagnostics import character_name
from reconciler.manifest.files import FILE_LIMIT
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Mark, SourceFile

#: Of each kind of character, so many are named; the rest of a damaged file would say the same.
NAMED_LIMIT: Final = 20

_ZWSP = "\u200b\u200c\u2060"
#: Spaces other than U+0020 and marks without width: in an indentation or a plain scalar they are never meant.
INVISIBLE: Final = (
    "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u00ad\u200e\u200f\u202a-\u202e\u2066-\u2069" + _ZWSP
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_INDENT = re.compile(rf"^[ \t]*([{INVISIBLE}])", re.MULTILINE)
_INVISIBLE = re.compile(f"[{INVISIBLE}]")


def decode(data: bytes, file: SourceFile, problems: Problems) -> str | None:
    """Return the text of a manifest file, or None after noting why it cannot be read as YAML text."""
    if len(data) > FILE_LIMIT:
        problems.add_file(file, "too-large", f"the file has more than {FILE_LIMIT >> 20} MiB")
        return None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        problems.add(Mark(file, 1, 1), "encoding", "the file is UTF-16, not UTF-8", "save it as UTF-8")
        return None
    start = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    try:
        text = data[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        _note_encoding(data, start + error.start, file, problems)
        return None
    file.text = text
    return text if _only_visible(text, file, problems) else None


def invisible_in(text: str) -> tuple[int, str] | None:
    """Return offset and name of the first character of `text` that cannot be seen, or None."""
    match = _INVISIBLE.search(text)
    return (match.start(), character_name(match[0])) if match else None


def _note_encoding(data: bytes, offset: int, file: SourceFile, problems: Problems) -> None:
    before = data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    line_start = before.rfind(b"\n") + 1
    file.text = data.decode("utf-8", errors="replace")
    mark = Mark(file, before.count(b"\n") + 1, len(before[line_start:].decode("utf-8", errors="replace")) + 1)
    problems.add(
        mark,
        "encoding",
        f"the file is not UTF-8: byte 0x{data[offset]:02x} at offset {offset}",
        "save it as UTF-8 (it may be Latin-1 or Windows-1252)",
    )


def _only_visible(text: str, file: SourceFile, problems: Problems) -> bool:
    """Note control characters, byte order marks and odd blanks in indentations; tell whether there were none."""
    found = [(m.start(), m[0]) for m in _CONTROL.finditer(text)]
    found += [(m.start(1), m[1]) for m in _INDENT.finditer(text)]
    for offset, char in sorted(found)[:NAMED_LIMIT]:
        before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        mark = Mark(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        problems.add(
            mark,
            "invisible-character",
            f"{character_name(char)} is not allowed here",
            "delete it; indent with spaces only"
            if char in INVISIBLE
            else "delete it, or write it as an escape in double quotes",
        )
    return not found
