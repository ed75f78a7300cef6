"""Writes what llama.cpp really loads beside the models of `tiny_gguf`: a projector, an adapter; and a picture."""

import struct
import zlib
from pathlib import Path

import gguf
import numpy as np

_EYE = 32
_PATCH = 14
_IMAGE = 56
_RANK = 4


def write_projector(path: Path, *, embd: int = 64, seed: int = 1) -> Path:
    """Write a vision transformer of one layer that turns a picture of 56 x 56 into one token."""
    writer = gguf.GGUFWriter(str(path), "clip")
    writer.add_type("mmproj")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "gemma3")
    writer.add_bool("clip.use_gelu", True)
    for key, value in {
        "image_size": _IMAGE,
        "patch_size": _PATCH,
        "embedding_length": _EYE,
        "feed_forward_length": 4 * _EYE,
        "projection_dim": embd,
        "block_count": 1,
        "attention.head_count": 2,
    }.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    _write_eye(writer, embd, np.random.default_rng(seed))
    return _finished(writer, path)


def write_adapter(path: Path, *, layers: int = 2, embd: int = 64, arch: str = "llama") -> Path:
    """Write a low-rank adapter strong enough that it changes what a tiny model answers."""
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 2.0 * _RANK)
    random = np.random.default_rng(3)
    for i in range(layers):
        for name, columns in (("attn_q", embd), ("ffn_down", 4 * embd)):
            for side, shape in (("a", (_RANK, columns)), ("b", (embd, _RANK))):
                values = random.standard_normal(shape).astype(np.float32)
                writer.add_tensor(f"blk.{i}.{name}.weight.lora_{side}", values)
    return _finished(writer, path)


def png(red: int, green: int, blue: int, side: int = _IMAGE) -> bytes:
    """Return a picture of one colour."""
    rows = b"".join(b"\0" + bytes((red, green, blue)) * side for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _write_eye(writer: gguf.GGUFWriter, embd: int, random: np.random.Generator) -> None:
    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) * 0.02).astype(np.float32))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(_EYE, dtype=np.float32))
        add(f"{name}.bias", _EYE)

    add("v.patch_embd.weight", _EYE, 3, _PATCH, _PATCH)
    add("v.patch_embd.bias", _EYE)
    add("v.position_embd.weight", (_IMAGE // _PATCH) ** 2, _EYE)
    for name, rows, columns in (
        *((f"attn_{kind}", _EYE, _EYE) for kind in ("q", "k", "v", "out")),
        ("ffn_up", 4 * _EYE, _EYE),
        ("ffn_down", _EYE, 4 * _EYE),
    ):
        add(f"v.blk.0.{name}.weight", rows, columns)
        add(f"v.blk.0.{name}.bias", rows)
    for name in ("v.blk.0.ln1", "v.blk.0.ln2", "v.post_ln"):
        norm(name)
    add("mm.input_projection.weight", _EYE, embd)
    writer.add_tensor("mm.soft_emb_norm.weight", np.ones(_EYE, dtype=np.float32))


def _finished(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
