"""Several files, one manifest: models side by side, each section in one place."""

from typing import Final

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.document import API_VERSION
from reconciler.manifest.problems import Problems
from reconciler.manifest.sections import unknown_key
from reconciler.manifest.tree import Entry, Map, Mark, Node, Scalar, Seq, SourceFile

#: What one file says for all.
_SECTIONS: Final = ("defaults", "gateway", "machine", "policy", "prewarm", "prewarm_per_hour")
#: Sections that may be spread over the files, and what each of their names stands for.
_NAMED: Final = {"models": "model", "virtual": "virtual model"}


def merge_files(roots: list[tuple[SourceFile, Node | None]], problems: Problems) -> tuple[Map, bool]:
    """Return one mapping with the sections and models of all files, and whether each file was a mapping.

    None among `roots` = that file is empty.
    """
    merged = Map(Mark(roots[0][0], 1, 1))
    whole = True
    for file, root in roots:
        whole = whole and isinstance(root, Map)
        if root is None or (isinstance(root, Scalar) and root.plain and not root.value):
            problems.add_file(
                file, "empty-file", "the file has nothing in it", f"begin with apiVersion: {API_VERSION}"
            )
        elif not isinstance(root, Map):
            problems.add(
                root.mark, "wrong-type", "a manifest is a mapping", f"begin with apiVersion: {API_VERSION}"
            )
        else:
            _check_version(root, problems)
            for name, entry in root.items.items():
                _take(merged, name, entry, problems)
    return merged, whole


def _check_version(root: Map, problems: Problems) -> None:
    hint = f"write apiVersion: {API_VERSION}"
    entry = root.items.get("apiVersion")
    if entry is None:
        problems.add(root.mark, "missing-key", 'the key "apiVersion" is missing', hint)
    elif not isinstance(entry.value, Scalar) or entry.value.value != API_VERSION:
        problems.add(entry.value.mark, "api-version", f"this program reads {API_VERSION}", hint)


def _take(merged: Map, name: str, entry: Entry, problems: Problems) -> None:
    if name == "apiVersion" or name.startswith("x-"):
        return
    if name in _NAMED:
        _take_named(merged, name, entry, problems)
    elif name not in _SECTIONS:
        problems.add(entry.key.mark, *unknown_key((name,)))
    elif name not in merged.items:
        merged.items[name] = entry
    elif not _same(merged.items[name].value, entry.value):
        first = merged.items[name].key.mark
        problems.add(
            entry.key.mark,
            "defined-twice",
            f"{name} is defined twice; first at {first}",
            "keep one of the two",
        )


def _take_named(merged: Map, section: str, entry: Entry, problems: Problems) -> None:
    known = merged.items.get(section)
    if known is None or not isinstance(known.value, Map) or not isinstance(entry.value, Map):
        value = entry.value
        if isinstance(value, Map):
            value = Map(value.mark, dict(value.items), value.weight)
        if known is None or not isinstance(value, Map):
            merged.items[section] = Entry(entry.key, value)
        return
    for name, named in entry.value.items.items():
        if name in known.value.items:
            first = known.value.items[name].key.mark
            message = f"the {_NAMED[section]} {quoted(name)} is defined twice; first at {first}"
            problems.add(named.key.mark, "defined-twice", message, "rename or delete one of the two")
        else:
            known.value.items[name] = named


def _same(one: Node, other: Node) -> bool:
    """Tell whether two nodes say the same, wherever they stand."""
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        return (one.value, one.plain) == (other.value, other.plain)
    if isinstance(one, Seq) and isinstance(other, Seq):
        pairs = zip(one.items, other.items, strict=False)
        return len(one.items) == len(other.items) and all(_same(a, b) for a, b in pairs)
    if isinstance(one, Map) and isinstance(other, Map):
        return one.items.keys() == other.items.keys() and all(
            _same(entry.value, other.items[name].value) for name, entry in one.items.items()
        )
    return False
