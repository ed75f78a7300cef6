"""The key that a model's server asks of its clients, as far as its launch says it: the gateway is its only client."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from reconciler.core.launch import LaunchSpec

_FLAG: Final = "--api-key"
#: Servers that take their key from a variable: llama.cpp and vLLM.
_VARIABLES: Final = ("LLAMA_API_KEY", "VLLM_API_KEY")


def stated(
    words: Sequence[str], env: Iterable[tuple[str, str]], variables: Iterable[str] = _VARIABLES
) -> str | None:
    """Return the key in the words of a command line, else in a variable; None = there is none.

    >>> stated(["serve", "--api-key", "k"], []), stated(["--api-key=k"], []), stated([], [("VLLM_API_KEY", "k")])
    ('k', 'k', 'k')
    """
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == _FLAG and (equals or i + 1 < len(words)):
            return usable(value if equals else words[i + 1])
    own = dict(env)
    return next((key for name in variables if (key := usable(own.get(name, "")))), None)


def of(spec: LaunchSpec) -> str | None:
    """Return the key that a program's command line or environment states; variables it does not set it inherits."""
    return stated((*spec.command, *spec.args), (*os.environ.items(), *spec.env))


def usable(key: str) -> str | None:
    """Return the key if it can stand in a header, else None."""
    key = key.strip()
    return key if key and key.isprintable() else None


def headers(key: str | None) -> Mapping[bytes, bytes]:
    """Return the headers of a request to a server with this key."""
    return {} if key is None else {b"authorization": bearer(key).encode()}


def bearer(key: str) -> str:
    """Return the value of `Authorization` for a key."""
    return f"Bearer {key}"
