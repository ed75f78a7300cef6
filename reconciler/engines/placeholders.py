"""`${port}`, `${weights}` and `${model}` in the words of a command line."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.core.launch import LaunchSpec

NAMES = ("model", "port", "weights")
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders that `values` names; what else looks like one is left for the program."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def filled(spec: LaunchSpec, port: int) -> LaunchSpec:
    """Return the launch with the placeholders in its command, arguments and environment filled in."""
    values = {"port": str(port), "model": spec.model, "weights": spec.weights or ""}
    return replace(
        spec,
        command=tuple(fill(word, values) for word in spec.command),
        args=tuple(fill(word, values) for word in spec.args),
        env=tuple((name, fill(value, values)) for name, value in spec.env),
    )


def words(spec: LaunchSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text in which placeholders are filled, with the manifest key it stands under."""
    for word in spec.command:
        yield ("command",), word
    for word in spec.args:
        yield ("args",), word
    for name, value in spec.env:
        yield ("env", name), value


def used(text: str) -> Iterator[str]:
    """Yield the name of each `${name}` in `text`, ours or not."""
    return (found[1] for found in _PLACEHOLDER.finditer(text))


def nearest(name: str) -> str | None:
    """Return the placeholder of ours that `name` was probably meant to be, or None.

    >>> nearest("PORT"), nearest("prot"), nearest("port"), nearest("HOME")
    ('port', 'port', None, None)
    """
    if name in NAMES:
        return None
    return next(iter(difflib.get_close_matches(name.lower(), NAMES, n=1, cutoff=0.7)), None)
