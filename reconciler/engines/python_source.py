"""What the text of a module tells of its class without running it: whether it can be read, and what it lacks."""

import ast
import re
import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.launch import Role
from reconciler.memory.gguf.cache import Remembered, Stamp
from reconciler.memory.regular import read_regular

_LARGEST: Final = 4 << 20
_HIDES_NAMES: Final = re.compile(r"import\s*\*|__getattr__|globals\(\)|setattr|exec\(")
METHODS: Final[Mapping[Role, str]] = {
    Role.CHAT: "chat",
    Role.VISION: "chat",
    Role.COMPLETION: "complete",
    Role.EMBEDDING: "embed",
    Role.RERANK: "rerank",
    Role.ASR: "transcribe",
    Role.TTS: "speak",
    Role.IMAGE: "image",
    Role.CLASSIFY: "classify",
}
#: Filters of warnings belong to the whole process: only one thread may have changed them.
_one_at_a_time: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Source:
    """A module's text; `broken` is where our own Python cannot read it, `tree` None then or if it is too much."""

    text: str
    tree: ast.Module | None = None
    broken: str = ""


_READ: Final[Remembered[Source]] = Remembered(most=64, heaviest=8 << 20)


def read(file: Path) -> Source:
    """Return the text of a module, parsed once for each state of its file. Blocks. Raises OSError."""
    stamp = Stamp.of(file, file.stat())
    known = _READ.get((stamp,))
    if known is None:
        data = read_regular(file, _LARGEST + 1)
        known = _parsed(data)
        _READ.put((stamp,), known, len(data))
    return known


def _parsed(data: bytes) -> Source:
    text = data[:_LARGEST].decode("utf-8", "replace")
    if len(data) > _LARGEST:
        return Source(text)
    try:
        with _one_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are for who runs it
            return Source(text, ast.parse(data))
    except SyntaxError as error:
        return Source(text, broken=f"line {error.lineno or 1}: {error.msg}")
    except (ValueError, RecursionError, MemoryError):
        return Source(text)  # its own interpreter may think otherwise; the worker says so


def unreadable(source: Source, version: str | None) -> str:
    """Return why an interpreter of `version` cannot read it, or "". A newer one may know more than ours does."""
    if not source.broken or version is None:
        return ""
    minor = tuple(int(part) for part in version.split(".")[:2])
    return source.broken if minor <= sys.version_info[:2] else ""


def may_define(source: Source, cls: str) -> bool:
    """Return whether the module may have the class, as far as its text tells."""
    return bool(re.search(rf"\b{re.escape(cls)}\b", source.text) or _HIDES_NAMES.search(source.text))


def lacking(source: Source, cls: str, role: Role) -> str | None:
    """Return the method of the role that a class has not, as far as its text tells, or None.

    Only of a plain class: what it inherits, or is given elsewhere in the file, is not looked for.
    """
    method = METHODS[role]
    found = [node for node in source.tree.body if _is(node, cls)] if source.tree is not None else []
    if len(found) != 1 or _HIDES_NAMES.search(source.text):
        return None
    node = found[0]
    assert isinstance(node, ast.ClassDef)
    plain = all(isinstance(base, ast.Name) and base.id == "object" for base in node.bases)
    if not plain or node.decorator_list or node.keywords:
        return None
    words = {word for part in node.body for word in _names(part)}
    if words & {method, "infer"} or re.search(rf"\b{cls}\.(?:{method}|infer)\b", source.text):
        return None
    return method


def _is(node: ast.stmt, cls: str) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == cls


def _names(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a class's body may define."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    found |= {
        part.name for part in ast.walk(node) if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    return found | {part.asname or part.name for part in ast.walk(node) if isinstance(part, ast.alias)}
