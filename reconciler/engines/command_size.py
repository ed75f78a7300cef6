"""What can be told of the size of a model whose program is not known: its weights, and what its context may take."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Estimate
from reconciler.core.types import Preflight, Reason
from reconciler.core.words import size as size_text
from reconciler.memory.gguf import WeightsError, find_weights
from reconciler.memory.hf import (
    HfShape,
    HfWeights,
    StatCache,
    find_model,
    holds_safetensors,
    kv_bytes,
    load_extra,
    read_shape,
)

#: Keys and values are kept in 16 bits unless somebody asks a program for something else.
_ELEMENT: Final = 2


@dataclass(frozen=True, slots=True)
class _Found:
    """What was read of some weights: GGUF, a Hugging Face model, or (both None) something that is not understood."""

    gguf: int | None = None
    model: HfWeights | None = None
    shape: HfShape | None = None


def _read(path: Path) -> _Found:
    if path.is_dir():
        if not holds_safetensors(path):
            return _Found()
    elif path.suffix == ".gguf":
        return _Found(gguf=find_weights(path).size)
    elif path.suffix != ".safetensors":
        return _Found()
    model = find_model(path)
    return _Found(model=model, shape=read_shape(model.config))


_SEEN: Final = StatCache(_read)


def judge(spec: LaunchSpec, weights: str) -> Preflight:
    """Say whether the weights can be loaded at all, and what is known of the model's size. Blocks.

    The sum is never known, since the program is not: `message` then helps a person to state it.
    """
    path = Path(weights)
    try:
        if problem := _nothing_there(path):
            return Preflight(spec.model, Reason.NOT_STARTABLE, problem)
        found = _SEEN.get(path)
    except FileNotFoundError:
        return Preflight(spec.model, Reason.NOT_STARTABLE, f"the weights {weights} do not exist")
    except OSError as error:
        problem = f"the weights {weights} cannot be read: {error.strerror}"
        return Preflight(spec.model, Reason.NOT_STARTABLE, problem)
    except WeightsError as error:
        return Preflight(spec.model, Reason.NOT_STARTABLE, str(error))
    tokens = spec.context_tokens
    if tokens is None and found.shape is not None:
        # The model's own length: a program that is not told less may use it all.
        tokens = found.shape.max_tokens
    parts = _parts(spec, found, tokens)
    return Preflight(spec.model, message=_hint(spec, parts, tokens), parts=parts)


def _nothing_there(path: Path) -> str | None:
    if path.is_dir():
        return None if os.listdir(path) else f"the weights folder {path} is empty"
    return None if path.stat().st_size else f"the weights file {path} is empty"


def _parts(spec: LaunchSpec, found: _Found, tokens: int | None) -> Estimate | None:
    if found.gguf is None and found.model is None:
        return None
    context = None
    if spec.context_bytes_per_token is not None and tokens is not None:
        context = spec.context_bytes_per_token * tokens * spec.slots
    elif found.shape is not None and tokens is not None:
        context = kv_bytes(found.shape, tokens, spec.slots, _ELEMENT, "other")
    if found.model is None or found.shape is None:
        return Estimate(weights=found.gguf, context=context)
    loading = load_extra(found.model, found.shape, "other")
    return Estimate(weights=found.model.tensor_bytes, context=context, loading=loading)


def _hint(spec: LaunchSpec, parts: Estimate | None, tokens: int | None) -> str:
    """Return what helps a person to state the size, or an empty text."""
    if parts is None or parts.weights is None:
        return ""
    text = f"its weights are {size_text(parts.weights)}"
    if parts.context is not None:
        each = f"{spec.slots} x {tokens}" if spec.slots > 1 else str(tokens)
        text += f"; with {each} tokens of context about {size_text(parts.weights + parts.context)}"
    return f"{text}: give memory.steady"
