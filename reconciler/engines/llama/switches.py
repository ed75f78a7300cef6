"""The switches of `llama-server` that decide its memory, under all their names; of each the last one given rules."""

from collections.abc import Mapping, Sequence
from typing import Final

from reconciler.core.launch import LoadMode

#: What llama.cpp takes for yes and for no, in this case of letters alone.
TRUE: Final = frozenset({"on", "enabled", "true", "1"})
FALSE: Final = frozenset({"off", "disabled", "false", "0"})

#: A switch -> its flags for on, those for off, and its variable. Some went away again.
_SWITCHES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]]] = {
    "unified": (("-kvu", "--kv-unified"), ("-no-kvu", "--no-kv-unified"), "LLAMA_ARG_KV_UNIFIED"),
    "full_windows": (("--swa-full",), (), "LLAMA_ARG_SWA_FULL"),
    "repack": (("--repack",), ("-nr", "--no-repack"), "LLAMA_ARG_REPACK"),
    "mmap": (("--mmap",), ("--no-mmap",), "LLAMA_ARG_MMAP"),
    "mlock": (("--mlock",), (), "LLAMA_ARG_MLOCK"),
    "direct": (("-dio", "--direct-io"), ("-ndio", "--no-direct-io"), "LLAMA_ARG_DIO"),
    "vectors": (("--embeddings", "--embedding"), (), "LLAMA_ARG_EMBEDDINGS"),
    "scores": (("--rerank", "--reranking"), (), "LLAMA_ARG_RERANKING"),
}
_MODE_FLAGS: Final = frozenset({"-lm", "--lm", "--load-mode"})
_MODE: Final = "LLAMA_ARG_LOAD_MODE"
VARIABLES: Final = frozenset(variable for _, _, variable in _SWITCHES.values())

Pairs = Sequence[tuple[str, str]]


def switched(setting: str, words: Pairs, env: Mapping[str, str]) -> bool | None:
    """Return whether a switch is on, or None if nothing says so."""
    on, off, variable = _SWITCHES[setting]
    for name, _ in reversed(words):
        if name in on or name in off:
            return name in on
    # `LLAMA_ARG_NO_...` says no whatever its value is.
    if off and variable.replace("ARG_", "ARG_NO_", 1) in env:
        return False
    value = env.get(variable)
    if value in TRUE:
        return True
    return False if off and value in FALSE else None


def load_mode(words: Pairs, env: Mapping[str, str]) -> str:
    """Return how the weights come into memory; a name that no `--load-mode` has is returned as it is."""
    given = [i for i, (name, _) in enumerate(words) if name in _MODE_FLAGS]
    later = words[given[-1] + 1 :] if given else words
    if not given and _MODE not in env:
        mode = _combined(LoadMode.AUTO.value, words, env)
    else:
        mode = _combined(words[given[-1]][1] if given else env[_MODE], later, {})
    return mode


def _combined(mode: str, words: Pairs, env: Mapping[str, str]) -> str:
    """Return what the older switches make of a mode."""
    mapped, locked, direct = (switched(name, words, env) for name in ("mmap", "mlock", "direct"))
    if mapped is None and locked is None and direct is None:
        return mode
    if direct:
        return "dio"
    if mapped is None:
        mapped = mode not in ("none", "mlock", "dio")
    if locked or (locked is None and "mlock" in mode):
        return "mmap+mlock" if mapped else "mlock"
    return "mmap" if mapped else "none"
