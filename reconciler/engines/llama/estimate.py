"""How many bytes a llama.cpp server will hold, by kind, worked out from the files before it is started."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Estimate, MappedFile
from reconciler.engines.llama import projector as llama_projector
from reconciler.engines.llama.args import Settings
from reconciler.engines.llama.compute import (
    GPU_CONTEXT,
    LARGEST_VOCABULARY,
    Work,
    compute_bytes,
    fixed_bytes,
    unknown_compute_bytes,
)
from reconciler.engines.llama.repack import repacked_bytes
from reconciler.engines.llama.settings import stated_context_bytes
from reconciler.memory.gguf import Array, Header, Weights, find_weights
from reconciler.memory.gguf.kv import Cache, context_bytes, context_step, state_bytes
from reconciler.memory.gguf.shape import ModelShape, ShapeUnknown, read_shape

_MAPPING: Final = frozenset({"auto", "mmap", "mmap+mlock"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model is computed, as far as it can be told without asking the server."""

    #: No GPU takes part.
    cpu: bool
    #: Its memory is wrapped without a copy (Metal).
    metal: bool = False
    #: The build is ours and new: it makes room for the results that are asked for. Older ones do for a whole batch.
    new: bool = True


@dataclass(frozen=True, slots=True)
class Sized:
    """An estimate, what of it are mapped files, and what is missing for one."""

    estimate: Estimate
    files: tuple[MappedFile, ...] = ()
    missing: str = ""
    #: What would do in place of `memory.steady`, where that is not all there is to give.
    instead: str = ""
    #: `Preflight.context_step` and `context_step_bytes`.
    context_step: int = 0
    context_step_bytes: int = 0


def size(spec: LaunchSpec, settings: Settings, weights: Weights, place: Place) -> Sized:
    """Return what the launch will hold. Reads the further files that `settings` name; raises `WeightsError`."""
    extra, extra_compute = _further(spec, settings, place)
    mapping = settings.load_mode in _MAPPING
    held = weights.tensor_bytes + extra
    if place.cpu and settings.repack:
        held += repacked_bytes(weights.header, mapped=mapping)
    # A GPU that shares the machine's memory gets a copy while the mapped file is still there.
    doubled = settings.load_mode == "mmap" and not place.cpu and not place.metal
    bare = Estimate(
        weights=held,
        cache=settings.prompt_cache or 0,
        loading=weights.tensor_bytes if doubled else 0,
    )
    files = _files(weights) if mapping and (place.cpu or place.metal) else ()
    if settings.prompt_cache is None:
        why = "--cache-ram has no bound, so the size has none"
        return Sized(bare, files, why, instead="--cache-ram N (MiB)")
    try:
        shape = read_shape(weights.header)
    except ShapeUnknown as error:
        return _without_shape(spec, settings, bare, files, str(error), place)
    return _with_shape(spec, settings, weights, place, bare, shape, files, extra_compute)


def _without_shape(
    spec: LaunchSpec,
    settings: Settings,
    bare: Estimate,
    files: tuple[MappedFile, ...],
    why: str,
    place: Place,
) -> Sized:
    """Use what the manifest states of the context, if it does; nothing else can be told."""
    context = stated_context_bytes(spec, settings.tokens)
    if context is None or bare.weights is None:
        return Sized(bare, files, why)
    unknown = ModelShape("", (), 0, 0, 0, 0, None, None)
    work = _work(settings, settings.tokens or 1, place)
    estimate = replace(
        bare,
        context=context,
        compute=unknown_compute_bytes(bare.weights),
        overhead=fixed_bytes(unknown, work, LARGEST_VOCABULARY) + (0 if place.cpu else GPU_CONTEXT),
    )
    return Sized(estimate, files)


def _with_shape(
    spec: LaunchSpec,
    settings: Settings,
    weights: Weights,
    place: Place,
    bare: Estimate,
    shape: ModelShape,
    files: tuple[MappedFile, ...],
    extra_compute: int,
) -> Sized:
    tokens = settings.tokens or shape.context_length
    if not tokens:
        return Sized(bare, files, f"the weights' header has no {shape.arch}.context_length")
    work = _work(settings, tokens, place)
    context = stated_context_bytes(spec, tokens)
    step, step_bytes = context_step(shape, work.cache)
    if context is None:
        context = context_bytes(shape, work.cache)
    else:
        step_bytes = stated_context_bytes(spec, step) or 0
    compute = compute_bytes(shape, work) + extra_compute
    overhead = fixed_bytes(shape, work, _merges(weights.header)) + (0 if place.cpu else GPU_CONTEXT)
    if settings.draft:
        draft = _draft(spec, settings, tokens, place)
        if isinstance(draft, str):
            return Sized(bare, files, draft)
        context, compute, overhead = context + draft[0], compute + draft[1], overhead + draft[2]
    return Sized(
        replace(
            bare,
            context=context,
            compute=compute,
            cache=bare.cache + settings.checkpoints * settings.slots * state_bytes(shape, work.cache),
            overhead=overhead,
        ),
        files,
        context_step=step,
        context_step_bytes=step_bytes,
    )


def _work(settings: Settings, tokens: int, place: Place) -> Work:
    batch = min(settings.micro_batch, max(1, tokens))
    cache = Cache(
        tokens=tokens,
        slots=settings.slots,
        unified=settings.unified,
        key_type=settings.key_type,
        value_type=settings.value_type,
        micro_batch=batch,
        full_windows=settings.full_windows,
        flash=settings.flash,
    )
    results = batch if settings.vectors or not place.new else settings.slots
    return Work(cache, results, settings.vectors)


def _further(spec: LaunchSpec, settings: Settings, place: Place) -> tuple[int, int]:
    """Return the bytes of adapters, projector and draft model, and what the projector computes in."""
    held, compute = 0, 0
    for name in (*settings.loras, *((settings.draft,) if settings.draft else ())):
        held += find_weights(Path(spec.cwd) / name).tensor_bytes
    if settings.projector:
        projector = find_weights(Path(spec.cwd) / settings.projector)
        held += projector.tensor_bytes
        # Drivers of GPUs, and older builds, do not have flash attention for every projector.
        flash = settings.flash and place.cpu and place.new
        compute += llama_projector.compute_bytes(projector, flash=flash)
    return held, compute


def _draft(spec: LaunchSpec, settings: Settings, tokens: int, place: Place) -> tuple[int, int, int] | str:
    """Return context, compute and vocabulary of the draft model, or why they are not known."""
    weights = find_weights(Path(spec.cwd) / (settings.draft or ""))
    try:
        shape = read_shape(weights.header)
    except ShapeUnknown as error:
        return f"{settings.draft}: {error}"
    # Its cache has types of its own, which are f16 unless stated; the size of f16 is never less than a quantised one.
    own = replace(settings, key_type="f16", value_type="f16", projector=None, loras=())
    work = _work(own, settings.draft_tokens or tokens, place)
    fixed = fixed_bytes(shape, work, _merges(weights.header))
    return context_bytes(shape, work.cache), compute_bytes(shape, work), fixed


def _merges(header: Header) -> int:
    merges = header.keys.get("tokenizer.ggml.merges")
    return merges.count if isinstance(merges, Array) else 0


def _files(weights: Weights) -> tuple[MappedFile, ...]:
    if len(weights.mapped) != 1:
        return weights.mapped
    # The header is read, not mapped.
    return (replace(weights.mapped[0], size=min(weights.mapped[0].size, weights.tensor_bytes)),)
