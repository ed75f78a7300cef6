"""Writes small llama models with random weights that llama.cpp really loads and answers with (nonsense)."""

from pathlib import Path

import gguf
import numpy as np

_SPECIAL = ("<unk>", "<s>", "</s>")
_VOCAB = len(_SPECIAL) + 256
#: Wide enough that a padded model has few layers, narrow enough that its compute buffers stay small.
_PAD_EMBD = 512


def write_llama(
    path: Path,
    *,
    layers: int = 2,
    embd: int = 64,
    heads: int = 4,
    context: int = 8192,
    pad_mib: int = 0,
    seed: int = 1,
) -> Path:
    """Write a model with a byte vocabulary and return `path`: 239 kB, written in 0.02 s.

    With `pad_mib` it gets as many further layers as make the file at least that many MiB: real weights, which every
    token touches. One token of context takes `context_bytes_per_token(...)` bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if pad_mib:
        embd, heads, layers = _PAD_EMBD, 8, layers_for(pad_mib)
    ffn = 4 * embd
    writer = gguf.GGUFWriter(str(path), "llama")
    _write_shape(writer, layers=layers, embd=embd, heads=heads, context=context, ffn=ffn)
    _write_vocabulary(writer)
    _write_tensors(writer, layers=layers, embd=embd, heads=heads, ffn=ffn, seed=seed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def layers_for(pad_mib: int) -> int:
    """Return how many layers `write_llama(pad_mib=...)` writes."""
    in_a_layer = _PAD_EMBD * (2 * _PAD_EMBD + 2 * _PAD_EMBD // 8 + 3 * 4 * _PAD_EMBD) * 2
    return -(-pad_mib * 1024 * 1024 // in_a_layer)


def context_bytes_per_token(layers: int = 2, embd: int = 64, heads: int = 4, pad_mib: int = 0) -> int:
    """Return what one token of context takes at cache type f16: one key and one value in every layer."""
    if pad_mib:
        layers, embd, heads = layers_for(pad_mib), _PAD_EMBD, 8
    return layers * (embd // heads) * 2 * 2


def _write_shape(
    writer: gguf.GGUFWriter, *, layers: int, embd: int, heads: int, context: int, ffn: int
) -> None:
    writer.add_name("tiny random llama")
    writer.add_context_length(context)
    writer.add_embedding_length(embd)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(embd // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(_VOCAB)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def _write_vocabulary(writer: gguf.GGUFWriter) -> None:
    tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * _VOCAB)
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_chat_template(
        "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    )


def _write_tensors(
    writer: gguf.GGUFWriter, *, layers: int, embd: int, heads: int, ffn: int, seed: int
) -> None:
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        # Large matrices repeat one block of rows: hundreds of MiB of random numbers would take seconds to make.
        block = random.standard_normal((min(rows, 64), columns), dtype=np.float32) * np.float32(0.02)
        repeats = -(-rows // len(block))
        return np.tile(block.astype(np.float16), (repeats, 1))[:rows]

    writer.add_tensor("token_embd.weight", matrix(_VOCAB, embd))
    writer.add_tensor("output_norm.weight", np.ones(embd, dtype=np.float32))
    writer.add_tensor("output.weight", matrix(_VOCAB, embd))
    for i in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", np.ones(embd, dtype=np.float32))
        for name, rows in (
            ("attn_q", embd),
            ("attn_k", embd // heads),
            ("attn_v", embd // heads),
            ("attn_output", embd),
        ):
            writer.add_tensor(f"blk.{i}.{name}.weight", matrix(rows, embd))
        writer.add_tensor(f"blk.{i}.ffn_gate.weight", matrix(ffn, embd))
        writer.add_tensor(f"blk.{i}.ffn_up.weight", matrix(ffn, embd))
        writer.add_tensor(f"blk.{i}.ffn_down.weight", matrix(embd, ffn))
