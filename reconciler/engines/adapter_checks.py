"""What can be wrong with the settings of any engine that is made of data: asked of `Adapter.check`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reconciler.core.launch import LaunchSpec, Sleep
from reconciler.engines import adapter_flags, placeholders, refusals
from reconciler.engines.base import Finding

if TYPE_CHECKING:
    from reconciler.engines.adapter import Adapter


#: What one engine or another keeps keys and values in.
CACHE_TYPES: Final = frozenset(
    {
        *("f32", "f16", "bf16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"),
        *("q8_0", "q5_0", "q5_1", "q4_0", "q4_1", "iq4_nl"),
    }
)


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
        yield Finding(("weights",), f"{engine.name} takes no weights", "leave `weights` out", needless=True)
    yield from refusals.unused(spec, engine.name, refusals.CHOSEN - engine.uses, engine.hints)
    yield from adapter_flags.findings(engine, spec)
    yield from _words(spec)
    yield from _extras(engine, spec)


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
    yield from sleeping(engine, spec)
    if spec.saves_state and engine.saver(spec) is None:
        hint = "leave `state.save` out, or name an address of the model's server"
        yield Finding(("state", "save"), f"{engine.name} cannot save its state", hint, needless=True)


def sleeping(engine: "Adapter", spec: LaunchSpec) -> Iterator[Finding]:
    """Yield a sleep that the engine could not wake from."""
    if spec.sleep is not Sleep.OFF and engine.sleeper(spec) is None:
        hint = "write `sleep: off`, or leave it out: it is stopped when it has to go"
        yield Finding(("sleep",), f"{engine.name} gives memory back only by ending", hint, needless=True)


def cache_type(spec: LaunchSpec, name: str, known: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a type of cached keys and values that the engine `name` has not."""
    if spec.cache_type not in known:
        message = f"{spec.cache_type!r} is not a cache type of {name}"
        # What no engine has is a slip, wherever it is written.
        needless = spec.cache_type in CACHE_TYPES
        yield Finding(("context", "cache_type"), message, f"one of {', '.join(known)}", needless=needless)


def one_adapter(spec: LaunchSpec, name: str) -> Iterator[Finding]:
    """Yield adapters that a server with a place for one, at full strength, cannot take."""
    if len(spec.adapters) > 1:
        hint = "put them into one, or name one"
        yield Finding(("adapters",), f"{name} takes one adapter", hint, needless=True)
    if any(adapter.scale != 1.0 for adapter in spec.adapters):
        message = f"{name} takes an adapter at full strength only"
        yield Finding(("adapters",), message, "leave `scale` out", needless=True)
