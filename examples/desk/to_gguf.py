"""Turns all-MiniLM-L6-v2, a BERT, from safetensors into the GGUF file that llama.cpp reads.

    .venv/bin/python to_gguf.py weights/minilm/model.safetensors weights/minilm/tokenizer.json TARGET

Runs in the desk's own environment (gguf, numpy). Matrices become 16-bit floats, vectors and the tables that llama.cpp
adds to each token stay at 32 bits.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np

LAYERS: Final = 6
WIDTH: Final = 384
#: The tokenizer's words for what has no text -> what GGUF calls them.
SPECIAL: Final = {"[CLS]": "bos", "[SEP]": "sep", "[UNK]": "unk", "[PAD]": "pad", "[MASK]": "mask"}
#: Names of tensors outside the layers, and within one. The pooler is not used for sentence vectors.
OUTER: Final = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
INNER: Final = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_LAYER: Final = re.compile(r"encoder\.layer\.(\d+)\.(.+)")


def tensors(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the name and values of each 32-bit tensor of a safetensors file, sorted by name."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    for name in sorted(header):
        if name != "__metadata__" and header[name]["dtype"] == "F32":
            begin, end = header[name]["data_offsets"]
            values = np.frombuffer(data[start + begin : start + end], dtype="<f4")
            yield name, values.reshape(header[name]["shape"])


def target_name(name: str) -> str | None:
    """Return what GGUF calls a tensor, or None for one that sentence vectors need not."""
    stem, _, kind = name.rpartition(".")
    if found := _LAYER.fullmatch(stem):
        return f"blk.{found[1]}.{INNER[found[2]]}.{kind}"
    return f"{OUTER[stem]}.{kind}" if stem in OUTER else None


def vocabulary(path: Path) -> list[str]:
    """Return the tokens in the order of their numbers."""
    numbers: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    return sorted(numbers, key=numbers.__getitem__)


def as_word(token: str) -> str:
    """Return a token as llama.cpp looks for it: the beginning of a word is marked, not its continuation."""
    if token in SPECIAL:
        return token
    return token[2:] if token.startswith("##") else "\u2581" + token


def write(source: Path, tokenizer: Path, target: Path) -> None:
    """Write the GGUF file `target`."""
    writer = gguf.GGUFWriter(target, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(4 * WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_head_count(12)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    add_tokens(writer, vocabulary(tokenizer))
    for name, values in tensors(source):
        if (mine := target_name(name)) is not None:
            small = values.ndim == 1 or mine.startswith(("position_embd", "token_types"))
            writer.add_tensor(mine, values if small else values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokens(writer: Any, tokens: list[str]) -> None:
    """Write the vocabulary of a BERT: pieces of words, all in lower case."""
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([as_word(token) for token in tokens])
    writer.add_token_types([control if token in SPECIAL else normal for token in tokens])
    for token, name in SPECIAL.items():
        getattr(writer, f"add_{name}_token_id")(tokens.index(token))


if __name__ == "__main__":
    write(*(Path(argument) for argument in sys.argv[1:4]))
