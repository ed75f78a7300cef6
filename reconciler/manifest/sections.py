"""Which keys belong where: what an unknown key was probably meant to be."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.document import Defaults, Document, Model
from reconciler.manifest.problems import nearest

#: What people call our settings elsewhere, and the line to write instead.
_ELSEWHERE: Final = {
    "apiKey": "gateway.api_keys",
    "apiKeys": "gateway.api_keys",
    "checkEndpoint": "health",
    "bind": "gateway.listen",
    "budget": "machine.memory",
    "cmd": "command",
    "concurrencyLimit": "concurrency",
    "ctx": "context.max_tokens",
    "ctx_size": "context.max_tokens",
    "globalTTL": "defaults.idle_ttl",
    "groups": "gateway.gates",
    "healthCheckTimeout": "timeouts.load",
    "host": "gateway.listen",
    "keep_alive": "idle_ttl",
    "model": "weights",
    "path": "weights",
    "selectors": "virtual",
    "sendLoadingState": "gateway.comments",
    "startPort": "machine.ports",
    "ttl": "idle_ttl",
    "unloadTimeout": "timeouts.stop",
    "workingDirectory": "cwd",
    "working_directory": "cwd",
}
_INSTEAD: Final = {
    "cmdStop": "a model is asked to end by TERM; see timeouts.stop",
    "hooks": "what is loaded at start is said of each model: residency: warm (or pinned)",
    "macros": "an anchor under a key that begins with x-, or ${env:NAME}",
    "matrix": "which models are in memory together follows from their sizes, priority and residency",
    "name": "a model's name is the key above it: models: {NAME: {...}}",
    "pinned": "write residency: pinned",
    "preload": "write residency: warm (or pinned)",
}
Section = tuple[str, ...]


def unknown_key(path: tuple[str | int, ...], shape: type[BaseModel] = Document) -> tuple[str, str, str]:
    """Return code, message and hint for a key that is not known at its place (`path` ends with the key).

    `shape` is what the whole file should be.
    """
    key, section = str(path[-1]), _section(path[:-1], shape)
    known = sections(shape).get(section, ())
    if shape is not Document:
        near = nearest(key, known)
        hint = f"did you mean {near}?" if near else f"known here: {', '.join(known)}"
        return "unknown-key", f"unknown key {quoted(key)}", hint
    if not section and key == "port":
        return "misplaced-key", 'no key "port" here', "did you mean gateway.listen (127.0.0.1:8080)?"
    near = nearest(key, known)
    if near == key:
        return (
            "misplaced-key",
            f"the key {quoted(key)} cannot stand beside the others here",
            "keep one of them",
        )
    if near:
        return "unknown-key", f"unknown key {quoted(key)}", f"did you mean {near}?"
    if key in _INSTEAD:
        return "unknown-key", f"unknown key {quoted(key)}", _INSTEAD[key]
    wanted = _ELSEWHERE.get(key)
    if wanted and wanted in known:
        return "unknown-key", f"unknown key {quoted(key)}", f"did you mean {wanted}?"
    if section and key in sections()[()]:
        return (
            "misplaced-key",
            f"the key {quoted(key)} does not belong here",
            "it belongs to the top level of the file",
        )
    homes = [f"{_named(place)}.{key}" for place, keys in sorted(sections().items()) if place and key in keys]
    if homes:
        return (
            "misplaced-key",
            f"the key {quoted(key)} does not belong here",
            f"it belongs to {' or '.join(homes)}",
        )
    if wanted:
        return "unknown-key", f"unknown key {quoted(key)}", f"did you mean {wanted}?"
    return "unknown-key", f"unknown key {quoted(key)}", _far(key, known)


@cache
def sections(shape: type[BaseModel] = Document) -> dict[Section, tuple[str, ...]]:
    """Return the keys of each mapping of a file of this shape, sorted. `*` is a name, `[]` an item of a list."""
    found: dict[Section, set[str]] = {}
    for place, key in _walk((), shape):
        found.setdefault(place, set()).add(key)
    return {place: tuple(sorted(keys)) for place, keys in found.items()}


def _walk(path: Section, model: type[BaseModel]) -> Iterator[tuple[Section, str]]:
    """Yield place and name of every key, each key after those above it."""
    fields = {info.alias or name: info for name, info in model.model_fields.items()}
    yield from ((path, name) for name in fields)
    for name, info in sorted(fields.items()):
        for steps, part in _parts(info.annotation):
            yield from _walk((*path, name, *steps), part)


def _parts(annotation: Any) -> list[tuple[Section, type[BaseModel]]]:
    """Return the mappings among the types a field may have, each with the steps that lead into it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [((), annotation)]
    step = {dict: ("*",), tuple: ("[]",)}.get(get_origin(annotation), ())
    return [((*step, *steps), part) for each in get_args(annotation) for steps, part in _parts(each)]


def _section(path: tuple[str | int, ...], shape: type[BaseModel]) -> Section:
    """Return the place of a path, with `*` for what the user named, and `[]` for an item of a list."""
    section: Section = ()
    for step in path:
        wild = "[]" if isinstance(step, int) else "*"
        starts = {place[: len(section) + 1] for place in sections(shape)}
        section = (*section, wild if (*section, wild) in starts else str(step))
    return section


def _named(section: Section) -> str:
    return ".".join("NAME" if part == "*" else part for part in section).replace(".[]", "[]")


def _far(key: str, known: tuple[str, ...]) -> str:
    """Suggest a key of another section that is spelt nearly like this one, else list what is known here."""
    for place, keys in sorted(sections().items()):
        if place and place[0] != "defaults" and (near := nearest(key, keys)):
            return f"did you mean {_named(place)}.{near}?"
    return f"known here: {', '.join(known)}"


def model_only(key: str) -> bool:
    """Tell whether a key belongs to one model alone and cannot be a default."""
    return key in Model.model_fields and key not in Defaults.model_fields
