"""What the weights of a model say of its size, for servers that load Hugging Face folders, GGUF files or others."""

from pathlib import Path

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight, Reason
from reconciler.core.words import size as size_text
from reconciler.engines.command_size import judge
from reconciler.memory.gguf import WeightsError
from reconciler.memory.hf import HfWeights, Runtime, StatCache, estimate, find_model, read_shape

_MODELS: "StatCache[HfWeights]" = StatCache(find_model)


def look_at(spec: LaunchSpec) -> Preflight:
    """Return whether the weights can be loaded, and what helps a person to state the size. Blocks."""
    return judge(spec, spec.weights) if spec.weights is not None else Preflight(spec.model)


def hugging_face(
    spec: LaunchSpec, runtime: Runtime, *, element: float = 2.0, prompt_cache: int = 0
) -> Preflight:
    """Return the preflight of a folder of safetensors, with its size where its shape is known. Blocks.

    `element` is the bytes of one cached key or value; `prompt_cache` the bytes kept of earlier prompts.
    """
    path = Path(spec.weights or "")
    try:
        model = _MODELS.get(path)
    except WeightsError as error:
        return Preflight(spec.model, Reason.NOT_STARTABLE, str(error))
    except OSError as error:
        what = f"the weights {path} cannot be read: {error.strerror}"
        return Preflight(spec.model, Reason.NOT_STARTABLE, what)
    shape = read_shape(model.config)
    tokens = spec.context_tokens or shape.max_tokens
    if tokens is None:
        message = f"its weights are {size_text(model.tensor_bytes)}, its context is not known"
        return Preflight(spec.model, message=f"{message}: give context.max_tokens, or memory.steady")
    parts = estimate(model, shape, tokens, spec.slots, element, runtime, prompt_cache)
    hint = "" if parts.steady else f"its weights are {size_text(model.tensor_bytes)}: give memory.steady"
    return Preflight(
        spec.model,
        message=hint,
        steady=parts.steady,
        peak=parts.peak,
        parts=parts,
        context_tokens=tokens * spec.slots,
    )
