"""What the weights of a model say of its size, for servers that load Hugging Face folders, GGUF files or others."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Estimate
from reconciler.core.types import Preflight, Reason
from reconciler.core.words import size as size_text
from reconciler.engines.command_size import judge
from reconciler.memory.gguf import WeightsError
from reconciler.memory.hf import (
    HfShape,
    HfWeights,
    Runtime,
    StatCache,
    check_folder,
    context_block,
    estimate,
    find_model,
    kv_bytes,
    load_extra,
    read_shape,
)

_MODELS: Final["StatCache[HfWeights]"] = StatCache(find_model)
#: Bytes of one cached key or value, where nothing else is asked for: caches have the type of the model.
_ELEMENT: Final = 2.0
_FULL: Final = 4.0


def look_at(spec: LaunchSpec) -> Preflight:
    """Return whether the weights can be loaded, and what helps a person to state the size. Blocks."""
    return judge(spec, spec.weights) if spec.weights is not None else Preflight(spec.model)


def hugging_face(
    spec: LaunchSpec,
    runtime: Runtime,
    *,
    element: float | None = None,
    prompt_cache: int = 0,
    loading: Runtime | None = None,
    windows: bool = True,
) -> Preflight:
    """Return the preflight of a folder of safetensors, with its size where its shape is known. Blocks.

    `element` is the bytes of one cached key or value (None = as the model's own type says); `prompt_cache` the bytes
    kept of earlier prompts; `loading` another program that loads as this one does; `windows` whether layers keep no
    more than they look at. A draft model and adapters count as weights.
    """
    if spec.weights is None:
        return Preflight(spec.model, Reason.NOT_STARTABLE, "no weights are given")
    try:
        model = _model(Path(spec.weights))
        odd = check_folder(Path(spec.weights))
        beside = sum(_model(Path(path)).tensor_bytes for path in _beside(spec))
    except WeightsError as error:
        return Preflight(spec.model, Reason.NOT_STARTABLE, str(error))
    shape = read_shape(model.config)
    tokens = spec.context_tokens or shape.max_tokens
    if tokens is None:
        known = f"its weights are {size_text(model.tensor_bytes + beside)}, its context is not known"
        hint = f"{known}: give context.max_tokens, or memory.steady"
        return Preflight(spec.model, message=hint, parts=Estimate(weights=model.tensor_bytes + beside))
    parts = estimate(
        model, shape, tokens, spec.slots, element or _element(shape, runtime), runtime, prompt_cache
    )
    parts = replace(
        parts,
        loading=load_extra(model, shape, loading or runtime),
        weights=model.tensor_bytes + beside,
        context=context_bytes(spec, runtime, element=element, windows=windows),
    )
    why = f" ({shape.unknown})" if shape.unknown else ""
    hint = "" if parts.steady else f"its weights are {size_text(parts.weights or 0)}{why}: give memory.steady"
    step, step_bytes = _context_step(spec, tokens, runtime, element=element, windows=windows)
    return Preflight(
        spec.model,
        message=hint,
        steady=parts.steady,
        peak=parts.peak,
        parts=parts,
        context_tokens=tokens * spec.slots,
        context_step=step,
        context_step_bytes=step_bytes,
        notes=(*model.oddities, *odd),
    )


def context_bytes(
    spec: LaunchSpec, runtime: Runtime, *, element: float | None = None, windows: bool = True
) -> int | None:
    """Return the bytes of keys and values of all slots at full length; None = the files do not tell. Blocks.

    What the manifest states of one token rules. A draft model keeps its own besides.
    """
    try:
        shapes = [_shape(Path(path), windows) for path in (spec.weights, spec.draft) if path]
    except WeightsError:
        return None
    tokens = spec.context_tokens or next((shape.max_tokens for shape in shapes), None)
    if tokens is None:
        return None
    if spec.context_bytes_per_token is not None:
        return spec.context_bytes_per_token * tokens * spec.slots
    each = [kv_bytes(s, tokens, spec.slots, element or _element(s, runtime), runtime) for s in shapes]
    known = [size for size in each if size is not None]
    return sum(known) if known and len(known) == len(each) else None


def _context_step(
    spec: LaunchSpec, tokens: int, runtime: Runtime, *, element: float | None, windows: bool
) -> tuple[int, int]:
    """Return the tokens of all slots by which the context is rounded up, and the bytes that so many fewer free.

    Layers with a window are full long before the others, and free nothing then.
    """
    block = context_block(runtime)
    there = -(-tokens // block) * block if block else 0
    if there <= block:
        return block * spec.slots, 0
    most, fewer = (
        context_bytes(replace(spec, context_tokens=n), runtime, element=element, windows=windows)
        for n in (there, there - block)
    )
    return block * spec.slots, 0 if most is None or fewer is None else most - fewer


def _model(path: Path) -> HfWeights:
    """Return what is at `path`. Raises `WeightsError` with one sentence."""
    try:
        return _MODELS.get(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise WeightsError(f"the weights {path} do not exist") from error
    except OSError as error:
        raise WeightsError(f"the weights {path} cannot be read: {error.strerror}") from error


def _shape(path: Path, windows: bool) -> HfShape:
    shape = read_shape(_model(path).config)
    if windows or shape.layers is None:
        return shape
    return replace(shape, layers=tuple(replace(layer, window=None) for layer in shape.layers))


def _beside(spec: LaunchSpec) -> list[str]:
    """Return what is loaded besides the weights."""
    return [*([spec.draft] if spec.draft else []), *(adapter.path for adapter in spec.adapters)]


def _element(shape: HfShape, runtime: Runtime) -> float:
    """Return the bytes of one key or value in the model's own type. vLLM computes 32-bit models in 16 bits."""
    return _FULL if shape.dtype == "float32" and runtime != "vllm" else _ELEMENT


def max_tokens(spec: LaunchSpec) -> int | None:
    """Return the tokens one request may use: as the manifest says, else as config.json does; None = unknown. Blocks."""
    if spec.context_tokens is not None or spec.weights is None:
        return spec.context_tokens
    try:
        return read_shape(_model(Path(spec.weights)).config).max_tokens
    except WeightsError:
        return None


def half(spec: LaunchSpec) -> bool:
    """Return whether the weights are stored in 16 bits. Blocks."""
    try:
        model = _model(Path(spec.weights or ""))
    except WeightsError:
        return False
    return bool(model.dtypes) and set(model.dtypes) <= {"BF16", "F16"}
