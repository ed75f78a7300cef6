"""Why llama.cpp would end while it loads: what settings and files say before anybody makes room for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines.llama import fits as llama_fits
from reconciler.engines.llama import library as llama_library
from reconciler.engines.llama.args import Settings
from reconciler.memory.gguf import Header, Weights, find_weights
from reconciler.memory.gguf.kv import ELEMENT
from reconciler.memory.gguf.shape import ShapeUnknown, read_shape

_HALF: Final = 2
#: Elements that share a scale in all quantised types of a cache.
_BLOCK: Final = 32
_PROJECTOR: Final = "clip"
_ADAPTER: Final = "adapter"


def why_not(spec: LaunchSpec, settings: Settings, weights: Weights, *, embedded: bool) -> str | None:
    """Return the first reason why the server would not start, or None. Reads files; raises `WeightsError`.

    A server of the user's may be of any age, so only what all of them refuse is told of it.
    """
    reasons = [_of_all(settings)]
    if embedded:
        reasons += [_batch(settings), _blocks(settings, weights.header)]
    reasons += [*_files(spec, settings, weights, embedded=embedded)]
    if embedded:
        reasons += [_unknown(path, header) for path, header in _loaded(spec, settings, weights)]
    return next((reason for reason in reasons if reason), None)


def _loaded(spec: LaunchSpec, settings: Settings, weights: Weights) -> Iterator[tuple[str, Header]]:
    """Yield all files that are loaded."""
    yield spec.weights or "", weights.header
    for name in (settings.projector, settings.draft, *settings.loras):
        if name is not None:
            path = Path(spec.cwd) / name
            yield str(path), find_weights(path).header


def _unknown(path: str, header: Header) -> str | None:
    problem = llama_library.cannot_load(header)
    return problem and f"{path} cannot be loaded: {problem}"


def _of_all(settings: Settings) -> str | None:
    if not settings.flash and _quantised(settings.value_type):
        return (
            f"a cache of values in {settings.value_type} needs flash attention: remove --flash-attn off, "
            "or give --cache-type-v f16"
        )
    if settings.batch < 1:
        return "--batch-size must be at least 1"
    return None


def _batch(settings: Settings) -> str | None:
    # It is computed with two tokens before the first request, and with one of each slot at once.
    least = max(2, settings.slots)
    if settings.batch < least:
        return f"--batch-size {settings.batch} is too small: with {settings.slots} slots at least {least}"
    return None


def _blocks(settings: Settings, header: Header) -> str | None:
    """Say whether quantised keys or values would not fill their blocks."""
    try:
        layers = [layer for layer in read_shape(header).layers if layer.kv_heads]
    except ShapeUnknown:
        return None
    for layer in layers:
        for length, kind, what in (
            (layer.key, settings.key_type, "keys"),
            (layer.value, settings.value_type, "values"),
        ):
            if _quantised(kind) and length % _BLOCK:
                return f"{what} of {length} elements cannot be kept in {kind}: give context.cache_type: f16"
    return None


def _files(spec: LaunchSpec, settings: Settings, weights: Weights, *, embedded: bool) -> Iterator[str | None]:
    yield _model(Path(spec.weights or ""), weights.header)
    if settings.projector is not None:
        path = Path(spec.cwd) / settings.projector
        arch = _text(find_weights(path).header, "general.architecture")
        if arch != _PROJECTOR:
            where = "projector" if spec.projector else "--mmproj"
            yield f"{where}: {path} is no projector but of architecture {arch or 'unknown'}; name the mmproj file"
    if settings.draft is not None:
        path = Path(spec.cwd) / settings.draft
        yield _model(path, find_weights(path).header)
    for name in settings.loras:
        path = Path(spec.cwd) / name
        problem = _adapter(path, find_weights(path).header, weights.header, embedded=embedded)
        yield problem and f"{'adapters' if spec.adapters else '--lora'}: {problem}"
    if settings.template is not None and not (Path(spec.cwd) / settings.template).is_file():
        yield f"--chat-template-file: there is no file {Path(spec.cwd) / settings.template}"


def _model(path: Path, header: Header) -> str | None:
    if _text(header, "general.architecture") == _PROJECTOR:
        return (
            f"{path} is a projector, not a model: it is given as `projector:` beside the model's `weights:`"
        )
    if _text(header, "general.type") == _ADAPTER:
        return f"{path} is an adapter, not a model: it is given as `adapters: [{{path: FILE}}]` beside `weights:`"
    return None


def _adapter(path: Path, header: Header, model: Header, *, embedded: bool) -> str | None:
    kind = _text(header, "general.type")
    if kind != _ADAPTER:
        return f"{path} is no adapter but a {kind or 'model'}"
    own, wanted = _text(header, "general.architecture"), _text(model, "general.architecture")
    if own != wanted:
        return f"{path} is for models of architecture {own}, not {wanted}"
    problem = llama_fits.adapter(header, model) or (llama_fits.lacks(header, model) if embedded else None)
    return problem and f"{path} is for another model: {problem}"


def _text(header: Header, key: str) -> str:
    value = header.keys.get(key)
    return value if isinstance(value, str) else ""


def _quantised(kind: str) -> bool:
    return ELEMENT[kind] < _HALF
