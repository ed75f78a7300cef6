"""Headers of model files as tests state them: written by gguf's own writer, without weights."""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

Value = int | float | bool | str | list[int] | list[bool] | list[str]

#: Shapes of models people run: layers, embedding, query heads, KV heads, elements of a head and what else matters.
LLAMA_8B = {
    "block_count": 32,
    "embedding_length": 4096,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
}
LLAMA_70B = {
    "block_count": 80,
    "embedding_length": 8192,
    "attention.head_count": 64,
    "attention.head_count_kv": 8,
}
QWEN_7B = {
    "block_count": 28,
    "embedding_length": 3584,
    "attention.head_count": 28,
    "attention.head_count_kv": 4,
}
QWEN3_30B = {
    "block_count": 48,
    "embedding_length": 2048,
    "attention.head_count": 32,
    "attention.head_count_kv": 4,
    "attention.key_length": 128,
    "attention.value_length": 128,
}
GEMMA_27B = {
    "block_count": 62,
    "embedding_length": 5376,
    "attention.head_count": 32,
    "attention.head_count_kv": 16,
    "attention.key_length": 128,
    "attention.value_length": 128,
    "attention.sliding_window": 1024,
}
GEMMA_270M = {
    "block_count": 18,
    "embedding_length": 640,
    "attention.head_count": 4,
    "attention.head_count_kv": 1,
    "attention.key_length": 256,
    "attention.value_length": 256,
    "attention.sliding_window": 512,
}
DEEPSEEK_V3 = {
    "block_count": 61,
    "embedding_length": 7168,
    "attention.head_count": 128,
    "attention.head_count_kv": 1,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "attention.kv_lora_rank": 512,
    "rope.dimension_count": 64,
}
#: The same model as it was written before only compressed keys were kept.
DEEPSEEK_OLD = {
    "block_count": 61,
    "embedding_length": 7168,
    "attention.head_count": 128,
    "attention.head_count_kv": 128,
    "attention.key_length": 192,
    "attention.value_length": 128,
    "attention.kv_lora_rank": 512,
    "rope.dimension_count": 64,
}


def write_header(path: Path, arch: str | None, keys: Mapping[str, Value], *, tokens: int = 0) -> Path:
    """Write a file that has `keys` below `arch` and nothing else but one number and, if asked for, a vocabulary.

    A file without any tensor is no model.
    """
    writer = gguf.GGUFWriter(str(path), arch or "")
    if arch is None:
        writer.kv_data[0].clear()
        writer.add_name("who am I")
    for name, value in keys.items():
        _add(writer, f"{arch}.{name}", value)
    if tokens:
        writer.add_token_list([f"t{i}" for i in range(tokens)])
    writer.add_tensor("tiny", np.zeros(1, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, name: str, value: Value) -> None:
    match value:
        case bool():
            writer.add_bool(name, value)
        case int():
            writer.add_uint32(name, value)
        case float():
            writer.add_float32(name, value)
        case str():
            writer.add_string(name, value)
        case list():
            writer.add_array(name, value)
