"""What two manifests say differently, key by key, as they are understood: `8GiB` and `8192MiB` are the same."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from reconciler.manifest.document import Document
from reconciler.manifest.tree import Map, Mark, Node, Scalar, Seq, find, secret_scalars

#: Shown in place of a value that nobody states.
DEFAULT: Final = "(default)"
HIDDEN: Final = "(hidden)"
_DIFFERS: Final = " (another)"
#: What is filled into every model is compared there.
_FILLED_IN: Final = frozenset({"defaults", "apiVersion"})
#: Names behind these are the user's own: one that is new is told as a whole.
_NAMED: Final = ("models", "virtual")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two manifests."""

    document: Document
    root: Map


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key whose value is another. `path` begins with the section; for a model that came or went it ends there."""

    path: Path
    #: As written; None = there is no such key on that side.
    before: str | None
    after: str | None
    #: file:line:col of the new value, or of the old one where there is no new one.
    place: str


def compare(old: Side, new: Side) -> tuple[KeyChange, ...]:
    """Return all differences, sorted by path. Values that may be secret are told to differ, and not shown."""
    before, after = _flat(old.document), _flat(new.document)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    whole = {path[:2] for path in changed if _came_or_went(path[:2], old, new)}
    hidden = {id(scalar) for side in (old, new) for scalar in secret_scalars(side.root)}
    paths = [path for path in changed if path[:2] not in whole] + [*whole]
    return tuple(_change(path, path in before, path in after, old, new, hidden) for path in sorted(paths))


def _came_or_went(name: Path, old: Side, new: Side) -> bool:
    if len(name) < 2 or name[0] not in _NAMED:
        return False
    return (name[1] in _names(old, name[0])) != (name[1] in _names(new, name[0]))


def _names(side: Side, section: str) -> Mapping[str, object]:
    found: Mapping[str, object] = getattr(side.document, section)
    return found


def _change(path: Path, was: bool, is_: bool, old: Side, new: Side, hidden: set[int]) -> KeyChange:
    if len(path) == 2 and _came_or_went(path, old, new):
        was, is_ = path[1] in _names(old, path[0]), path[1] in _names(new, path[0])
        return KeyChange(path, "" if was else None, "" if is_ else None, _place(path, new if is_ else old))
    before = _text(path, old, hidden) if was else None
    after = _text(path, new, hidden) if is_ else None
    if before == after and after is not None:
        after += _DIFFERS  # what is not shown, or an expansion, has another value
    return KeyChange(path, before, after, _place(path, new) or _place(path, old))


def _flat(document: Document) -> dict[Path, Any]:
    """Return all values of a document, defaults too, by their paths."""
    dumped = document.model_dump(by_alias=True)
    return {
        path: value
        for section, part in dumped.items()
        if section not in _FILLED_IN
        for path, value in _leaves((section,), part)
    }


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if not isinstance(value, dict):
        yield path, value.value if isinstance(value, Enum) else value
        return
    for name, below in value.items():
        yield from _leaves((*path, str(name)), below)


def _written(path: Path, side: Side) -> tuple[Node, Mark] | None:
    """Return where a key is written: at its path, or for a model under `defaults`; None = nowhere."""
    places = [path, ("defaults", *path[2:])] if path[0] == "models" else [path]
    for place in places:
        node, key, depth = find(side.root, place)
        if depth == len(place):
            return node, node.mark if isinstance(node, Scalar) or key is None else key.mark
    return None


def _place(path: Path, side: Side) -> str:
    found = _written(path, side)
    return str(found[1]) if found is not None else ""


def _text(path: Path, side: Side, hidden: set[int]) -> str:
    found = _written(path, side)
    return DEFAULT if found is None else _shown(found[0], hidden)


def _shown(node: Node, hidden: set[int]) -> str:
    if isinstance(node, Scalar):
        return HIDDEN if id(node) in hidden else node.value
    if isinstance(node, Seq):
        return f"[{', '.join(_shown(item, hidden) for item in node.items)}]"
    pairs = (f"{name}: {_shown(entry.value, hidden)}" for name, entry in node.items.items())
    return f"{{{', '.join(pairs)}}}"
