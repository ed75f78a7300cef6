"""API keys: written in the manifest, in a file of their own, or in a variable."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from reconciler.manifest.applied import ApiKey
from reconciler.manifest.expand import variables
from reconciler.manifest.explain import locate, place
from reconciler.manifest.files import FILE_LIMIT, explain_os_error, read_regular
from reconciler.manifest.gateway_part import ApiKeyEntry, ApiKeyFile, ApiKeyVariable, Gateway
from reconciler.manifest.key_lines import KeyLineError, parse_key_line, split_variable
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Map, Mark, Scalar, SourceFile, secret_scalars

#: A key, where it stands, and what to call that place. A key without a name has the empty one.
Found = list[tuple[ApiKey, Mark, str]]


def read_keys(
    gateway: Gateway, root: Map, environ: Mapping[str, str], problems: Problems
) -> tuple[ApiKey, ...]:
    """Return the keys of the gateway, each with a name. Blocks: it may read a file.

    Notes what cannot be read, is no key, or is there twice. No message repeats a key.
    """
    match gateway.api_keys:
        case None:
            return ()
        case ApiKeyFile(file=file):
            found = _from_file(file, root, problems)
        case ApiKeyVariable(env=name):
            found = _from_variable(name, root, environ, problems)
        case listed:
            found = _from_list(listed, root)
    return _named(_unique(found, problems))


def key_variables(root: Map) -> tuple[str, ...]:
    """Return the variables that hold keys, sorted: named by `env`, or put into the list by `${env:NAME}`."""
    node, _, whole = locate(root, ("gateway", "api_keys"))
    if not whole:
        return ()
    if isinstance(node, Map):
        named = node.items.get("env")
        return (named.value.value,) if named and isinstance(named.value, Scalar) else ()
    texts = [scalar.value for scalar in secret_scalars(root.items["gateway"].value)]
    return tuple(sorted({name for text in texts for name in variables(text)}))


def _from_list(listed: tuple[ApiKeyEntry | str, ...], root: Map) -> Found:
    found: Found = []
    for number, item in enumerate(listed):
        where = place(root, ("gateway", "api_keys", number))
        if isinstance(item, str):
            key = ApiKey(str(item))
        else:
            key = ApiKey(str(item.key), item.name or "", frozenset(item.scopes), item.priority)
        found.append((key, where, f"item {number + 1}"))
    return found


def _from_file(name: str, root: Map, problems: Problems) -> Found:
    where = place(root, ("gateway", "api_keys", "file"))
    path = (where.file.directory / name).absolute()
    problems.also_read.append(str(path))
    try:
        data = read_regular(path)
        lines = data.decode("utf-8-sig").splitlines()
    except OSError as error:
        problems.add(where, "api-keys", f"the file of API keys cannot be read: {explain_os_error(error)}")
        return []
    except UnicodeDecodeError:
        problems.add(where, "api-keys", "the file of API keys is not UTF-8", "save it as UTF-8")
        return []
    if len(data) > FILE_LIMIT:
        problems.add(where, "api-keys", f"the file of API keys has more than {FILE_LIMIT >> 20} MiB")
        return []
    # Without its text, so that no line of it is ever shown.
    file = SourceFile(str(Path(where.file.name).parent / name), path.parent)
    placed = ((number, line, Mark(file, number, 1)) for number, line in enumerate(lines, 1))
    return _from_lines(placed, "the file of API keys", where, problems)


def _from_variable(name: str, root: Map, environ: Mapping[str, str], problems: Problems) -> Found:
    where = place(root, ("gateway", "api_keys", "env"))
    if name not in environ:
        message = f"the environment variable {name} is not set"
        problems.add(where, "api-keys", message, "set it to one key a line, or keys with commas between them")
        return []
    lines = split_variable(environ[name])
    placed = ((number, line, where) for number, line in enumerate(lines, 1))
    return _from_lines(placed, f"the variable {name}", where, problems)


def _from_lines(
    lines: Iterable[tuple[int, str, Mark]], source: str, where: Mark, problems: Problems
) -> Found:
    """Return the keys of numbered lines, each with its place; `where` is the place of all of them."""
    found: Found = []
    before = len(problems)
    for number, line, mark in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found.append((parse_key_line(line), mark, f"line {number} of {source}"))
        except KeyLineError as error:
            problems.add(mark, "api-keys", f"line {number} of {source}: {error.problem}", error.hint)
    if not found and len(problems) == before:
        problems.add(where, "api-keys", f"{source} has no key in it", "write one key a line")
    return found


def _unique(found: Found, problems: Problems) -> list[ApiKey]:
    """Return the keys; notes those that are there twice, by their text or by their name."""
    keys: dict[str, str] = {}
    names: dict[str, str] = {}
    texts = {key.key for key, _, _ in found}
    for key, where, spot in found:
        if key.key in keys:
            message = f"{spot}: this key is there already, as {keys[key.key]}"
            problems.add(
                where, "api-keys", message, "each client gets a key of its own; delete one of the two"
            )
        if key.name and key.name in names:
            message = f"{spot}: the name {key.name} is taken already, by {names[key.name]}"
            problems.add(where, "api-keys", message, "give each key a name of its own")
        if key.key in key.name or key.name in texts:
            problems.add(where, "api-keys", f"{spot}: its name repeats a key", "names are shown in logs")
        keys.setdefault(key.key, spot)
        names.setdefault(key.name, spot)
    return [key for key, _, _ in found]


def _named(keys: list[ApiKey]) -> tuple[ApiKey, ...]:
    """Return the keys; those without a name are called by their number."""
    taken = {key.name for key in keys}
    named = []
    for number, key in enumerate(keys, 1):
        if not key.name:
            free = (f"key-{number}" + (f".{n}" if n else "") for n in count())
            name = next(name for name in free if name not in taken)
            taken.add(name)
            key = replace(key, name=name)
        named.append(key)
    return tuple(named)
