"""Stand-ins for weights that are too big to carry: files with the header and the size of the real ones, and holes.

    python examples/stand_ins.py examples/desk-b     # writes desk-b/weights/..., some MB on disk

Whatever reads headers (validate, budget, a dry run) takes them for the real thing; no engine can work with them. What
is written stands in `stand-ins.json` of the folder. Files that are there already are left alone.
"""

import argparse
import json
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

_U32, _F32, _TEXT, _ARRAY = 4, 6, 8, 9
#: Type -> its number, elements of a block, bytes of a block.
_TYPES: Final = {
    "F32": (0, 1, 4),
    "F16": (1, 1, 2),
    "Q8_0": (8, 32, 34),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
}
#: What files of this name are made of: most matrices, and those that are kept finer.
_MIXES: Final = {
    "F16": (1, "F16", "F16"),
    "Q8_0": (7, "Q8_0", "Q8_0"),
    "Q4_K_M": (15, "Q4_K", "Q6_K"),
    "Q5_K_S": (16, "Q5_K", "Q5_K"),
}
_ALIGNMENT: Final = 32

Tensor = tuple[str, tuple[int, ...], str]


def main(words: list[str]) -> int:
    """Write the stand-ins of the named folder. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder with stand-ins.json")
    folder: Path = parser.parse_args(words).folder
    for name, model in sorted(json.loads((folder / "stand-ins.json").read_text("utf-8")).items()):
        path = folder / name
        if path.exists():
            print(f"there    {path}")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.new")
        with draft.open("wb") as file:
            size = _write(file, model)
        draft.replace(path)
        print(f"written  {path}  {size / 1e9:.1f} GB, nearly all of it a hole")
    return 0


def _write(file: BinaryIO, model: Mapping[str, Any]) -> int:
    """Write one file and return its size in bytes."""
    if "whisper" in model:
        file.write(struct.pack("<4s11i", b"lmgg", *model["whisper"]))
    if "bytes" in model:
        file.truncate(model["bytes"])
        return int(model["bytes"])
    tensors = list(_projector(model) if model["arch"] == "clip" else _tensors(model))
    offset, described = 0, []
    for name, shape, kind in tensors:
        number, block, size = _TYPES[kind]
        elements = 1
        for axis in shape:
            elements *= axis
        axes = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        described.append(_text(name) + axes)
        offset += -(-(elements // block * size) // _ALIGNMENT) * _ALIGNMENT
    keys = _keys(model)
    file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys)))
    file.write(b"".join(_text(key) + value for key, value in keys.items()) + b"".join(described))
    start = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
    file.truncate(start + offset)
    return start + offset


def _keys(model: Mapping[str, Any]) -> dict[str, bytes]:
    arch = model["arch"]
    keys = {"general.architecture": _string(arch), "general.type": _string(model.get("type", "model"))}
    keys["general.file_type"] = _number(_MIXES[model["quant"]][0])
    if arch == "clip":
        return keys | {"clip.has_vision_encoder": struct.pack("<I?", 7, True)}
    shape = {
        "block_count": model["layers"],
        "context_length": model["context"],
        "embedding_length": model["embedding"],
        "feed_forward_length": model["feed_forward"],
        "attention.head_count": model["heads"],
        "attention.head_count_kv": model["kv_heads"],
    }
    keys |= {f"{arch}.{key}": _number(value) for key, value in shape.items()}
    if pooling := model.get("pooling"):
        keys[f"{arch}.pooling_type"] = _number(pooling)
    vocabulary = [f"<{n}>".encode() for n in range(model["vocabulary"])]
    keys["tokenizer.ggml.model"] = _string("gpt2")
    keys["tokenizer.ggml.tokens"] = struct.pack("<IIQ", _ARRAY, _TEXT, len(vocabulary)) + b"".join(
        struct.pack("<Q", len(token)) + token for token in vocabulary
    )
    return keys


def _tensors(model: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield name, shape and type of each tensor of a transformer with grouped query attention."""
    _, most, finer = _MIXES[model["quant"]]
    width, inner, layers = model["embedding"], model["feed_forward"], model["layers"]
    narrow = width // model["heads"] * model["kv_heads"]
    yield "token_embd.weight", (width, model["vocabulary"]), most
    for n in range(layers):
        # Mixed types keep half of the layers' most sensitive matrices finer.
        fine = finer if n % 2 else most
        yield f"blk.{n}.attn_q.weight", (width, width), most
        yield f"blk.{n}.attn_k.weight", (width, narrow), most
        yield f"blk.{n}.attn_v.weight", (width, narrow), fine
        yield f"blk.{n}.attn_output.weight", (width, width), most
        yield f"blk.{n}.attn_norm.weight", (width,), "F32"
        yield f"blk.{n}.ffn_gate.weight", (width, inner), most
        yield f"blk.{n}.ffn_up.weight", (width, inner), most
        yield f"blk.{n}.ffn_down.weight", (inner, width), fine
        yield f"blk.{n}.ffn_norm.weight", (width,), "F32"
    yield "output_norm.weight", (width,), "F32"
    if not model.get("tied"):
        yield "output.weight", (width, model["vocabulary"]), finer


def _projector(model: Mapping[str, Any]) -> Iterator[Tensor]:
    width = model["embedding"]
    for n in range(model["layers"]):
        yield f"v.blk.{n}.attn.weight", (width, 4 * width), "F16"
        yield f"v.blk.{n}.ffn.weight", (width, 8 * width), "F16"


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _string(text: str) -> bytes:
    return struct.pack("<I", _TEXT) + _text(text)


def _number(value: int) -> bytes:
    return struct.pack("<II", _U32, value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
