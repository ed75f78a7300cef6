"""Names and aliases: what clients may call a model, and that nothing is called twice."""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

from reconciler.manifest.diagnostics import character_name, quoted
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Map, Mark, Scalar, Seq

NAME_LENGTH: Final = 128
_MODEL: Final = "a model's name"
_VIRTUAL: Final = "a virtual model's name"


def name_problem(name: str) -> str | None:
    """Return what makes `name` unfit to be a model's id, or None. It may not look like a path or hide characters."""
    if not name.strip():
        return "a name must not be empty"
    if len(name) > NAME_LENGTH:
        return f"a name has at most {NAME_LENGTH} characters, this one {len(name)}"
    odd = next((c for c in name if not c.isprintable()), None)
    if odd:
        return f"a name must not contain {character_name(odd)}"
    if name != name.strip():
        return "a name must not begin or end with a blank"
    if name.startswith(("/", ".")):
        return "a name must not begin with / or ."
    if ".." in name.replace("\\", "/").split("/"):
        return 'a name must not have ".." between slashes'
    return None


def check_names(models: Map, virtual: Map | None, read: Mapping[str, Any], problems: Problems) -> None:
    """Note unfit names and aliases, and every id that is claimed twice (compared after NFC).

    `read` holds the models' values, where aliases are expanded.
    """
    claimed: dict[str, tuple[str, Mark]] = {}
    claims = [(entry.key, name, _MODEL) for name, entry in models.items.items()]
    claims += _aliases(models, read)
    claims += [(entry.key, name, _VIRTUAL) for name, entry in (virtual.items if virtual else {}).items()]
    for scalar, value, what in claims:
        if problem := name_problem(value):
            problems.add(scalar.mark, "name", f"{quoted(scalar.value)}: {problem}")
            continue
        key = unicodedata.normalize("NFC", value)
        if key in claimed:
            problems.add(
                scalar.mark, "name-clash", _clash(scalar, what, *claimed[key]), "rename one of the two"
            )
        else:
            claimed[key] = (what, scalar.mark)


def routes(aliases: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return every id a client may use with the model it means, sorted by id. `aliases` has every model's."""
    found = {alias: name for name, several in aliases.items() for alias in several}
    found |= {name: name for name in aliases}
    return dict(sorted(found.items()))


def _aliases(models: Map, read: Mapping[str, Any]) -> Iterator[tuple[Scalar, str, str]]:
    """Yield place, value and description of each alias; what is no text is the document check's affair."""
    for name, entry in models.items.items():
        listed = entry.value.items.get("aliases") if isinstance(entry.value, Map) else None
        values = read.get(name, {}).get("aliases") if isinstance(read.get(name), dict) else None
        if listed and isinstance(listed.value, Seq) and isinstance(values, list):
            for item, value in zip(listed.value.items, values, strict=True):
                if isinstance(item, Scalar) and isinstance(value, str):
                    yield item, str(value), f"an alias of {quoted(name)}"


def _clash(scalar: Scalar, what: str, described: str, first: Mark) -> str:
    this = "this " + what.removeprefix("a ").removeprefix("an ")
    message = f"{quoted(scalar.value)} is {described} already, at {first}; {this} cannot be the same"
    return message if scalar.value.isascii() else message + " (compared after Unicode normalisation)"
