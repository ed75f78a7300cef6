"""Writes model files of many shapes with random weights, which llama.cpp really loads: figures, not answers, matter.

Unlike `tiny_gguf` these have vocabularies, head sizes, windows, experts and weight types of real models.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np

_SPECIAL: Final = ("<unk>", "<s>", "</s>")
_BYTES: Final = tuple(f"<0x{byte:02X}>" for byte in range(256))
_TYPES: Final = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}
_RANDOM: Final = np.random.default_rng(1)


@dataclass(frozen=True, slots=True)
class RandomModel:
    """A shape. `arch` is llama, gemma3, qwen3, mamba or lfm2; `kind` is the type of the matrices."""

    name: str
    arch: str = "llama"
    layers: int = 4
    embd: int = 256
    heads: int = 4
    kv_heads: int = 4
    head: int = 64
    ffn: int = 512
    vocab: int = 1000
    kind: str = "f16"
    context: int = 65536
    window: int = 0
    experts: int = 0
    used: int = 2
    #: A vocabulary of merges, as most models have, instead of pieces with scores.
    merges: bool = False
    tied: bool = False


def write_random(model: RandomModel, folder: Path) -> Path:
    """Write the model into `folder` and return the file. About 1 s a GB."""
    path = folder / f"{model.name.partition(',')[0].replace(' ', '-')}.gguf"
    writer = gguf.GGUFWriter(str(path), model.arch)
    _keys(writer, model)
    _vocabulary(writer, model)
    for name, rows, columns in _matrices(model):
        _add_matrix(writer, model, name, rows, columns)
    for name, shape, value in _vectors(model):
        writer.add_tensor(name, np.full(shape, value, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _keys(writer: gguf.GGUFWriter, model: RandomModel) -> None:
    writer.add_name(model.name)
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.embd)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.ffn)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(model.vocab)
    if model.arch == "mamba":
        writer.add_ssm_conv_kernel(4)
        writer.add_ssm_inner_size(2 * model.embd)
        writer.add_ssm_state_size(16)
        writer.add_ssm_time_step_rank(_rank(model))
        return
    writer.add_head_count(model.heads)
    if model.arch == "lfm2":
        writer.add_head_count_kv([model.kv_heads if _attends(i) else 0 for i in range(model.layers)])
        writer.add_shortconv_l_cache(3)
    else:
        writer.add_head_count_kv(model.kv_heads)
    writer.add_key_length(model.head)
    writer.add_value_length(model.head)
    writer.add_rope_dimension_count(model.head)
    if model.window:
        writer.add_sliding_window(model.window)
    if model.experts:
        writer.add_expert_count(model.experts)
        writer.add_expert_used_count(model.used)


def _vocabulary(writer: gguf.GGUFWriter, model: RandomModel) -> None:
    if model.merges:
        _merges(writer, model)
        return
    pieces = [f"\u2581p{i}" for i in range(model.vocab - len(_SPECIAL) - len(_BYTES))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * len(_BYTES) + [gguf.TokenType.NORMAL] * len(pieces)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*_SPECIAL, *_BYTES, *pieces])
    writer.add_token_scores([-float(i) for i in range(model.vocab)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _merges(writer: gguf.GGUFWriter, model: RandomModel) -> None:
    """Write a vocabulary of pairs: each merge joins a letter to a piece that exists."""
    letters = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    tokens = ["<end>", *letters]
    merges = []
    for left in tokens[1:].copy():
        merges += [(left, right) for right in letters]
    for left, right in merges.copy():
        merges += [(left + right, third) for third in letters]
        if len(merges) > model.vocab:
            break
    merges = merges[: model.vocab - len(tokens)]
    tokens += [left + right for left, right in merges]
    assert len(tokens) == model.vocab
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (model.vocab - 1))
    writer.add_token_merges([f"{left} {right}" for left, right in merges])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)


def _attends(layer: int) -> bool:
    return layer % 4 == 3


def _rank(model: RandomModel) -> int:
    return max(1, model.embd // 16)


def _matrices(model: RandomModel) -> Iterator[tuple[str, int, int]]:
    """Yield name, rows and columns (the inner length) of each matrix."""
    yield "token_embd.weight", model.vocab, model.embd
    if not model.tied:
        yield "output.weight", model.vocab, model.embd
    for i in range(model.layers):
        at = f"blk.{i}."
        if model.arch == "mamba":
            inner = 2 * model.embd
            yield at + "ssm_in.weight", 2 * inner, model.embd
            yield at + "ssm_out.weight", model.embd, inner
            continue
        if model.arch == "lfm2" and not _attends(i):
            yield at + "shortconv.in_proj.weight", 3 * model.embd, model.embd
            yield at + "shortconv.out_proj.weight", model.embd, model.embd
        else:
            yield at + "attn_q.weight", model.heads * model.head, model.embd
            yield at + "attn_k.weight", model.kv_heads * model.head, model.embd
            yield at + "attn_v.weight", model.kv_heads * model.head, model.embd
            yield at + "attn_output.weight", model.embd, model.heads * model.head
        yield from _feed_forward(model, at)


def _feed_forward(model: RandomModel, at: str) -> Iterator[tuple[str, int, int]]:
    many = max(1, model.experts)
    suffix = "_exps.weight" if model.experts else ".weight"
    yield at + "ffn_gate" + suffix, many * model.ffn, model.embd
    yield at + "ffn_up" + suffix, many * model.ffn, model.embd
    yield at + "ffn_down" + suffix, many * model.embd, model.ffn


def _vectors(model: RandomModel) -> Iterator[tuple[str, tuple[int, ...], float]]:
    """Yield name, shape and value of what is kept as f32: norms, biases and the small parts of a state model."""
    one = (model.embd,)
    yield "token_embd_norm.weight" if model.arch == "lfm2" else "output_norm.weight", one, 1.0
    for i in range(model.layers):
        at = f"blk.{i}."
        yield at + "attn_norm.weight", one, 1.0
        if model.arch == "mamba":
            yield from _state_vectors(model, at)
            continue
        yield at + "ffn_norm.weight", one, 1.0
        if model.experts:
            yield at + "ffn_gate_inp.weight", (model.experts, model.embd), 0.01
        if model.arch == "gemma3":
            for name in ("post_attention_norm", "post_ffw_norm"):
                yield f"{at}{name}.weight", one, 1.0
        if model.arch == "lfm2" and not _attends(i):
            yield at + "shortconv.conv.weight", (model.embd, 3), 0.1
        elif model.arch in ("gemma3", "lfm2", "qwen3"):
            for name in ("attn_q_norm", "attn_k_norm"):
                yield f"{at}{name}.weight", (model.head,), 1.0


def _state_vectors(model: RandomModel, at: str) -> Iterator[tuple[str, tuple[int, ...], float]]:
    inner, rank = 2 * model.embd, _rank(model)
    yield at + "ssm_conv1d.weight", (inner, 4), 0.1
    yield at + "ssm_conv1d.bias", (inner,), 0.0
    yield at + "ssm_x.weight", (rank + 32, inner), 0.01
    yield at + "ssm_dt.weight", (inner, rank), 0.01
    yield at + "ssm_dt.bias", (inner,), 0.0
    yield at + "ssm_a", (inner, 16), -1.0
    yield at + "ssm_d", (inner,), 1.0


def _add_matrix(writer: gguf.GGUFWriter, model: RandomModel, name: str, rows: int, columns: int) -> None:
    # The same few rows over and over: a GB of random numbers would take a minute to make.
    block = _RANDOM.standard_normal((min(rows, 64), columns), dtype=np.float32) * np.float32(0.02)
    packed: Any = block
    if model.kind == "f16":
        packed = block.astype(np.float16)
    elif model.kind != "f32":
        packed = gguf.quants.quantize(block, _TYPES[model.kind])
    whole = np.tile(packed, (-(-rows // len(packed)), 1))[:rows]
    if name.endswith("_exps.weight"):
        whole = whole.reshape(model.experts, rows // model.experts, -1)
    raw = _TYPES[model.kind] if model.kind.startswith("q") else None
    writer.add_tensor(name, whole, raw_dtype=raw)
