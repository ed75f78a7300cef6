"""Hugging Face folders for tests: files of the right layout and size, with holes in place of weights."""

import json
from collections.abc import Mapping
from pathlib import Path

#: Bits of one element.
BITS = {"U8": 8, "F16": 16, "BF16": 16, "F32": 32, "U32": 32}


def header(tensors: Mapping[str, tuple[str, list[int]]], **extra: object) -> bytes:
    """Return the header of a file with these tensors one after the other, and `extra` members."""
    described: dict[str, object] = {"__metadata__": {"format": "pt"}, **extra}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = BITS[dtype] // 8
        for axis in shape:
            size *= axis
        described[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return json.dumps(described).encode()


def write_raw(path: Path, text: bytes, data: int) -> Path:
    """Write a file with the header `text` and `data` bytes after it."""
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + data)
    return path


def write_tensors(path: Path, tensors: Mapping[str, tuple[str, list[int]]]) -> Path:
    """Write a whole file."""
    text = header(tensors)
    offsets = [entry["data_offsets"][1] for name, entry in json.loads(text).items() if name != "__metadata__"]
    return write_raw(path, text, max(offsets, default=0))


def write_model(folder: Path, config: object = None, *, shards: int = 1, elements: int = 1 << 20) -> Path:
    """Write a model of bf16 tensors with `elements` in each of its `shards`, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"model-{i:05d}-of-{shards:05d}.safetensors" for i in range(1, shards + 1)]
    if shards == 1:
        names = ["model.safetensors"]
    weight_map = {}
    for i, name in enumerate(names):
        write_tensors(folder / name, {f"layer.{i}.weight": ("BF16", [elements])})
        weight_map[f"layer.{i}.weight"] = name
    if shards > 1:
        index = {"metadata": {"total_size": 2 * elements * shards}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder
