"""Whether an adapter belongs to a model: its pairs must make matrices of the shapes the model has."""

import pytest

from reconciler.engines.llama import fits as llama_fits
from reconciler.memory.gguf import Header, Tensor


def header(**shapes: tuple[int, ...]) -> Header:
    tensors = [Tensor(name.replace("__", "."), shape, 0, 0, 0) for name, shape in shapes.items()]
    return Header(3, {}, tuple(tensors), 0)


MODEL = header(token_embd__weight=(64, 259), blk__0__attn_q__weight=(64, 32), blk__0__attn_norm__weight=(64,))


def pair(base: str, first: tuple[int, ...], second: tuple[int, ...]) -> Header:
    return header(**{f"{base}__lora_a": first, f"{base}__lora_b": second})


PAIRS = {
    "fits": (pair("blk__0__attn_q__weight", (64, 4), (4, 32)), ""),
    "is for wider models": (pair("blk__0__attn_q__weight", (128, 4), (4, 32)), "another shape than 64 x 32"),
    "is for other heads": (pair("blk__0__attn_q__weight", (64, 4), (4, 64)), "another shape"),
    "has its table the other way round": (pair("token_embd__weight", (4, 259), (4, 64)), ""),
    "has a smaller table": (pair("token_embd__weight", (4, 200), (4, 64)), "another shape than 64 x 259"),
    # The server says it: it is no matter of shapes.
    "has half a pair": (header(blk__0__attn_q__weight__lora_a=(1, 1)), ""),
    "is for deeper models": (pair("blk__9__attn_q__weight", (1, 1), (1, 1)), ""),
    "is empty": (header(), ""),
}


@pytest.mark.parametrize("case", PAIRS)
def test_shapes(case: str) -> None:
    own, words = PAIRS[case]
    problem = llama_fits.adapter(own, MODEL)
    assert (words in (problem or "")) if words else problem is None


def test_what_the_model_does_not_have_is_named() -> None:
    assert llama_fits.lacks(PAIRS["fits"][0], MODEL) is None
    problem = llama_fits.lacks(PAIRS["is for deeper models"][0], MODEL)
    assert problem == "it changes blk.9.attn_q.weight, which the model does not have"
