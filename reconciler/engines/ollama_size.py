"""What a model of Ollama's will take: its runner is llama.cpp's server, and so is the arithmetic."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from reconciler.core.launch import LaunchSpec, LoadMode
from reconciler.core.types import Preflight, Reason
from reconciler.engines import ollama_store
from reconciler.engines.llama import build as llama_build
from reconciler.engines.llama import estimate as llama_estimate
from reconciler.engines.llama.args import SettingsError, read_settings
from reconciler.memory.gguf import WeightsError, find_weights


def preflight(spec: LaunchSpec) -> Preflight:
    """Return whether the model is whole, and its size if its context is known. Blocks."""
    try:
        stored = ollama_store.read(spec.weights or "")
        tokens = stored.context_tokens or spec.context_tokens
        if stored.model is None or tokens is None:
            return Preflight(spec.model, message=_unknown(stored))
        return replace(_estimate(spec, stored, tokens), notes=tuple(_notes(spec, stored)))
    except (WeightsError, SettingsError) as error:
        return Preflight(spec.model, Reason.NOT_STARTABLE, str(error))


def _unknown(stored: ollama_store.Stored) -> str:
    if stored.model is None:
        return "its weights are in no GGUF file: give memory.steady"
    return "Ollama chooses its context by what memory is free: give context.max_tokens, or memory.steady"


def _notes(spec: LaunchSpec, stored: ollama_store.Stored) -> Iterator[str]:
    own = stored.context_tokens
    if own is not None and spec.context_tokens not in (None, own):
        yield f"its Modelfile sets num_ctx {own}, which rules over context.max_tokens"


def _estimate(spec: LaunchSpec, stored: ollama_store.Stored, tokens: int) -> Preflight:
    """Return what llama.cpp would take. Ollama has the weights copied, not mapped. Raises what reading them does."""
    extra = [word for path in stored.projectors for word in ("--mmproj", str(path))]
    extra += [word for path in stored.adapters for word in ("--lora", str(path))]
    extra += ["-ngl", "0"] if spec.device.gpus == () else []
    runner = LaunchSpec(
        spec.model,
        "llama.cpp",
        weights=str(stored.model),
        role=spec.role,
        context_tokens=tokens,
        slots=spec.slots,
        cache_type=spec.cache_type,
        load_mode=LoadMode.NONE,
    )
    settings = read_settings(runner, extra, embedded=False)
    weights = find_weights(Path(runner.weights or ""))
    sized = llama_estimate.size(runner, settings, weights, llama_build.place(runner, settings, new=True))
    return Preflight(
        spec.model,
        message=f"{sized.missing}: give memory.steady" if sized.missing else "",
        steady=sized.estimate.steady,
        peak=sized.estimate.peak,
        parts=sized.estimate,
        context_tokens=settings.tokens,
        context_step=sized.context_step,
        context_step_bytes=sized.context_step_bytes,
    )
