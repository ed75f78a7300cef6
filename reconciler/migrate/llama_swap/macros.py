"""Macros, replaced in llama-swap's order: the last defined first, once each, so that one may use those before it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.manifest.problems import nearest
from reconciler.manifest.tree import Map, Mark, Scalar
from reconciler.migrate.finding import Kind, Report
from reconciler.migrate.llama_swap.values import Section, is_null, locate

PORT: Final = "${PORT}"
PID: Final = "${PID}"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,63}")
_MACRO: Final = re.compile(r"\$\{([a-zA-Z0-9_-]+)\}")
_VARIABLE: Final = re.compile(r"\$\{env\.([a-zA-Z_][a-zA-Z0-9_]*)\}")
#: Characters that macros may make of a text at most: some that use each other twice grow beyond any memory.
_LONGEST: Final = 1 << 18
_RESERVED: Final = frozenset({"PORT", "MODEL_ID"})


@dataclass(frozen=True, slots=True)
class Macro:
    """One definition."""

    name: str
    text: str
    #: Where it is written; None = it is the model's id.
    source: Scalar | None = None


def read(section: Section, key: str = "macros") -> list[Macro]:
    """Return the macros of a section in the order they are defined; what is none is noted."""
    macros = section.section(key)
    found = []
    for name in macros.node.items if macros else ():
        assert macros is not None, "it was iterated over"
        value = macros.entry(name).value
        if problem := _problem(name, value):
            macros.say(Kind.ERROR, name, problem)
        elif isinstance(value, Scalar):
            found.append(Macro(name, _rendered(value), value))
    return found


def _problem(name: str, value: object) -> str | None:
    if not _NAME.fullmatch(name):
        return "a macro's name has letters, digits, _ and -, at most 63 of them"
    if name in _RESERVED:
        return f"the name {name} is llama-swap's own"
    if not isinstance(value, Scalar):
        return "a macro is a text, a number, true or false"
    if f"${{{name}}}" in value.value:
        return "it refers to itself"
    return None


def _rendered(value: Scalar) -> str:
    """Return a value as llama-swap writes it into a command: a number without trailing zeros, nothing for null."""
    if is_null(value):
        return ""
    if value.plain and re.fullmatch(r"[+-]?[0-9]+\.[0-9]+", value.value):
        return f"{float(value.value):g}" if len(value.value) < 9 else value.value
    return value.value


def merged(model: str, common: Sequence[Macro], own: Sequence[Macro]) -> list[Macro]:
    """Return the macros that hold for a model: its own take the place of common ones of the same name."""
    found = [Macro("MODEL_ID", model), *common]
    for macro in own:
        place = next((n for n, other in enumerate(found) if other.name == macro.name), None)
        if place is None:
            found.append(macro)
        else:
            found[place] = macro
    return found


def expand(text: str, macros: Sequence[Macro]) -> str:
    """Return `text` with the macros filled in; `${PORT}` and variables stay, and what would make it too long."""
    for macro in reversed(macros):
        slug = f"${{{macro.name}}}"
        if len(text) + text.count(slug) * len(macro.text) <= _LONGEST:
            text = text.replace(slug, macro.text)
    return text


def check(
    text: str, source: Scalar, key: str, macros: Sequence[Macro], report: Report, *, pid: bool = False
) -> bool:
    """Note the macros that are left in an expanded text, where they stand; tell whether there are none."""
    allowed = {"PORT", "PID"} if pid else {"PORT"}
    unknown = [name for name in dict.fromkeys(_MACRO.findall(text)) if name not in allowed]
    for name in unknown:
        mark = _origin(name, source, macros)
        what = f"there is no macro ${{{name}}}: llama-swap refuses the file"
        report.add(Kind.ERROR, mark, key, what, _instead(name, macros))
    return not unknown


def _origin(name: str, source: Scalar, macros: Sequence[Macro]) -> Mark:
    needle = f"${{{name}}}"
    places = [source, *(m.source for m in macros if m.source is not None)]
    return next((locate(place, needle) for place in places if needle in place.value), source.mark)


def _instead(name: str, macros: Sequence[Macro]) -> str:
    if near := nearest(name, [*(m.name for m in macros), "PORT"]):
        if any(m.name == near == name for m in macros):
            return f"a macro can use only those defined before it, and become {_LONGEST >> 10} KiB of text at most"
        return f"did you mean ${{{near}}}?"
    if name.isupper():
        return f"a variable of the environment is written ${{env.{name}}}"
    return "define it under macros, or write what it stands for"


def variables(text: str) -> Iterator[str]:
    """Yield the variables of the environment that a text takes values from."""
    return (match[1] for match in _VARIABLE.finditer(text))


def ours(text: str) -> str:
    """Return a text with placeholders as a manifest has them.

    >>> ours("--port ${PORT} -m ${env.HOME}/a.gguf ${env:x}")
    '--port ${port} -m ${env:HOME}/a.gguf $${env:x}'
    """
    escaped = text.replace("${env:", "$${env:")
    return _VARIABLE.sub(lambda found: f"${{env:{found[1]}}}", escaped).replace(PORT, "${port}")


def in_map(node: Map) -> Iterator[Scalar]:
    """Yield all single values below a mapping."""
    for entry in node.items.values():
        if isinstance(entry.value, Scalar):
            yield entry.value
        elif isinstance(entry.value, Map):
            yield from in_map(entry.value)
