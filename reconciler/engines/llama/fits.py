"""Whether the further files of a model belong to it: what llama.cpp finds out only after it has loaded the weights."""

from typing import Final

from reconciler.memory.gguf import Array, Header, Tensor

_FIRST, _SECOND = ".lora_a", ".lora_b"
#: The table of tokens is picked from, not multiplied with: its two parts change places.
_TABLE: Final = "token_embd.weight"
#: As many tokens may be missing at the end of one vocabulary.
_SPARE: Final = 128


def adapter(own: Header, model: Header) -> str | None:
    """Return why an adapter is for another model, or None. `model` holds the tensors of all parts."""
    wanted = {tensor.name: tensor for tensor in model.tensors}
    found = {tensor.name: tensor for tensor in own.tensors}
    for name in sorted(found):
        base = name.removesuffix(_FIRST)
        first, second, whole = found[name], found.get(base + _SECOND), wanted.get(base)
        if base == name or second is None or whole is None:
            continue
        if base == _TABLE:
            first, second = second, first
        if _pair(first, second, base == _TABLE) != whole.shape[:2]:
            return f"its {base} is for one of another shape than {' x '.join(map(str, whole.shape))}"
    return None


def lacks(own: Header, model: Header) -> str | None:
    """Return which tensor an adapter changes that the model does not have, or None."""
    wanted = {tensor.name for tensor in model.tensors}
    bases = {name.removesuffix(_FIRST) for tensor in own.tensors if (name := tensor.name).endswith(_FIRST)}
    missing = sorted(bases - wanted)
    return f"it changes {missing[0]}, which the model does not have" if missing else None


def _pair(first: Tensor, second: Tensor, table: bool) -> tuple[int, ...]:
    """Return the shape of what the two parts make together; the part of the columns is `first`."""
    return (_axis(first, 1 if table else 0), _axis(second, 1))


def _axis(tensor: Tensor, axis: int) -> int:
    return tensor.shape[axis] if axis < len(tensor.shape) else 1


def draft(own: Header, model: Header) -> str | None:
    """Return why a draft model cannot guess for the model, or None: it would be loaded, and not used."""
    kinds = [header.keys.get("tokenizer.ggml.model") for header in (own, model)]
    if all(isinstance(kind, str) for kind in kinds) and kinds[0] != kinds[1]:
        return f"its vocabulary is of another kind ({kinds[0]}, not {kinds[1]})"
    counts = [tokens.count for header in (own, model) if isinstance(tokens := _tokens(header), Array)]
    if len(counts) == 2 and abs(counts[0] - counts[1]) > _SPARE:
        return f"it knows {counts[0]} tokens, the model {counts[1]}"
    return None


def _tokens(header: Header) -> object:
    return header.keys.get("tokenizer.ggml.tokens")
