"""The flags and variables among a manifest's words that are not the user's to give, or that decide the size."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reconciler.core.launch import LaunchSpec
from reconciler.engines import arguments
from reconciler.engines.base import Finding

if TYPE_CHECKING:
    from reconciler.engines.adapter import Adapter


def findings(engine: "Adapter", spec: LaunchSpec) -> Iterator[Finding]:
    """Yield what of `command`, `args` and `env` cannot be given there. Reads no file."""
    for path, words in _words(spec):
        for word in words:
            if found := _refused(engine, path, word):
                yield found
        yield from _sizes(engine, path, words)
    for name, _ in spec.env:
        if name in engine.owned_variables:
            yield Finding(("env", name), f"{name} cannot be given here", _hint(engine.owned_variables[name]))


def deciding(engine: "Adapter", spec: LaunchSpec) -> str | None:
    """Return the first flag or variable of the launch after which nobody can compute its size, or None."""
    for _, words in _words(spec):
        for word in words:
            if (flag := arguments.name(word)) in engine.sizing:
                return flag
    return next((name for name, _ in spec.env if name.startswith(engine.sizing_variables)), None)


def _words(spec: LaunchSpec) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    return (("command",), spec.command[1:]), (("args",), spec.args)


def _refused(engine: "Adapter", path: tuple[str, ...], word: str) -> Finding | None:
    """Return why a word is refused: it is a setting of the manifest, and of two one would be passed over."""
    shown = word.partition("=")[0]
    flag = arguments.name(word)
    # vLLM takes `--speculative-config.model x` for one key of `--speculative-config`.
    for known in (shown, flag, flag.partition(".")[0], flag.replace("--no-", "--", 1)):
        if known in engine.owned:
            return Finding(path, f"{shown} cannot be given here", _hint(engine.owned[known]))
    if flag in engine.sizing or flag in engine.sizes:
        return None
    if engine.abbreviates and (full := _begun(engine, flag)):
        message = f"{shown} is cut short: {engine.name} takes it for {full}"
        return Finding(path, message, "give flags in full")
    if engine.glued and flag[:2] in engine.owned and not flag.startswith("--"):
        return Finding(path, f"{flag[:2]} cannot be given here", _hint(engine.owned[flag[:2]]))
    return None


def _begun(engine: "Adapter", flag: str) -> str | None:
    """Return the flag that `flag` is the beginning of, of those that are not the user's or decide the size, or None.

    argparse, which most servers use, takes any beginning of a flag for the flag.
    """
    if not flag.startswith("--") or len(flag) == 2:
        return None
    known = sorted({*engine.owned, *engine.sizing, *engine.sizes})
    return next((full for full in known if full.startswith(flag)), None)


def _sizes(engine: "Adapter", path: tuple[str, ...], words: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the sizes that the program itself could not read: it would end, or take them for something else."""
    for flag, units in sorted(engine.sizes.items()):
        stated = arguments.value(words, flag)
        if stated is not None and arguments.size(stated, units) is None:
            hint = f"digits, and one of {', '.join(sorted(unit for unit in units if unit))}, or bytes alone"
            yield Finding(path, f"{flag}: {stated!r} is no size that {engine.name} can read", hint)
        elif stated is None and arguments.given(words, flag):
            yield Finding(path, f"{flag} has no value")


def _hint(key: str) -> str:
    """Return what to do: a key is one word, "" is ours to choose, and a sentence says it all."""
    if " " in key:
        return key
    return f"it is stated as `{key}`" if key else "it is chosen by reconcile"
