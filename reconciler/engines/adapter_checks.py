"""What can be wrong with the settings of any engine that is made of data: asked of `Adapter.check`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reconciler.core.launch import LaunchSpec, Sleep
from reconciler.engines import placeholders
from reconciler.engines.base import Finding

if TYPE_CHECKING:
    from reconciler.engines.adapter import Adapter


def common(engine: "Adapter", spec: LaunchSpec) -> Iterator[Finding]:
    """Yield what is wrong with the settings, whichever engine it is. Reads no file."""
    if spec.role not in engine.roles:
        yield Finding(
            ("role",),
            f"{engine.name} is no {spec.role.value} server",
            f"one of {', '.join(sorted(engine.roles))}",
        )
    if engine.weights and spec.weights is None:
        yield Finding(("weights",), "this engine needs weights", "weights: path/to/model")
    if engine.weights is None and spec.weights is not None:
        yield Finding(("weights",), f"{engine.name} takes no weights", "leave `weights` out")
    yield from _flags(engine, spec)
    yield from _words(spec)
    yield from _extras(engine, spec)


def _flags(engine: "Adapter", spec: LaunchSpec) -> Iterator[Finding]:
    """Yield the flags that are settings of the manifest: given twice, one of them would be passed over."""
    for path, words in ((("command",), spec.command[1:]), (("args",), spec.args)):
        for word in words:
            flag = word.partition("=")[0]
            # Many parsers take `--max_model_len` for `--max-model-len`.
            key = engine.owned.get(flag) or engine.owned.get(flag.replace("_", "-"))
            if key is not None:
                hint = f"it is stated as `{key}`" if key else "it is chosen by reconcile"
                yield Finding(path, f"{flag} cannot be given here", hint)


def _words(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield the placeholders that were meant to be ours and are not filled in."""
    own = {name for name, _ in spec.env}
    for path, text in placeholders.words(spec):
        for name in placeholders.used(text):
            near = placeholders.nearest(name)
            if near and name not in own:
                yield Finding(path, f"${{{name}}} is not filled in", f"did you mean ${{{near}}}?")


def _extras(engine: "Adapter", spec: LaunchSpec) -> Iterator[Finding]:
    """Yield what this engine has no way to do: passed over, it would be believed to hold."""
    if spec.sleep is not Sleep.OFF and engine.sleeper(spec) is None:
        yield Finding(
            ("sleep",), f"{engine.name} gives memory back only by ending", "leave `sleep` out", needless=True
        )
    if spec.saves_state and engine.saver(spec) is None:
        hint = "leave `state.save` out, or name an address of the model's server"
        yield Finding(("state", "save"), f"{engine.name} cannot save its state", hint, needless=True)


def cache_type(spec: LaunchSpec, name: str, known: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a type of cached keys and values that the engine `name` has not."""
    if spec.cache_type not in known:
        message = f"{spec.cache_type!r} is not a cache type of {name}"
        yield Finding(("context", "cache_type"), message, f"one of {', '.join(known)}")


def one_adapter(spec: LaunchSpec, name: str) -> Iterator[Finding]:
    """Yield adapters that a server with a place for one, at full strength, cannot take."""
    if len(spec.adapters) > 1:
        yield Finding(("adapters",), f"{name} takes one adapter", "put them into one, or name one")
    if any(adapter.scale != 1.0 for adapter in spec.adapters):
        yield Finding(("adapters",), f"{name} takes an adapter at full strength only", "leave `scale` out")
