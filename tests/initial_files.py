"""Files of models as they lie on people's disks, small and whole, for the tests of `init`."""

import struct
from pathlib import Path

from gguf_headers import LLAMA_8B, LLAMA_70B, Value, write_header
from raw_gguf import RawTensor, scalar, string, texts, whole
from reconciler.core.memory import Memory
from reconciler.initial.serving import Here

GIB = 1 << 30
BERT: dict[str, Value] = {
    "block_count": 12,
    "embedding_length": 384,
    "attention.head_count": 12,
    "context_length": 512,
    "feed_forward_length": 1536,
    "pooling_type": 2,
}


def memory(total: int = 24 * GIB) -> Memory:
    """Return a machine of so many bytes that nobody uses."""
    return Memory(total, total, "as the test says")


def here(*names: str) -> tuple[Here, ...]:
    """Return engines that are said to be here."""
    return tuple(Here(name, f"/usr/bin/{name}", None) for name in sorted(names))


def chat(path: Path, *, size: int = 0, length: int = 131072, big: bool = False) -> Path:
    """Write a chat model whose tensor takes `size` bytes, as a hole: a header of an 8B, or of a 70B."""
    path.parent.mkdir(parents=True, exist_ok=True)
    keys = {f"llama.{name}": scalar(4, number) for name, number in (LLAMA_70B if big else LLAMA_8B).items()}
    keys |= {
        "general.architecture": string("llama"),
        "llama.context_length": scalar(4, length),
        "llama.feed_forward_length": scalar(4, 14336),
        "tokenizer.chat_template": string("{{ messages }}"),
        "tokenizer.ggml.tokens": texts([f"t{i}" for i in range(64)]),
    }
    elements = max(32, size // 4 // 32 * 32)
    raw = whole(keys, [RawTensor("blk.0.ffn_norm.weight", (32, elements // 32))], data=0)
    with path.open("wb") as file:
        file.write(raw)
        file.truncate(len(raw) + 4 * elements)
    return path


def embedding(path: Path) -> Path:
    """Write a model that makes vectors."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_header(path, "bert", BERT, tokens=8)


def odd(path: Path, architecture: str, kind: str = "", **keys: int) -> Path:
    """Write a GGUF file of an architecture and a `general.type`, with no more keys than that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"general.architecture": string(architecture)} | ({"general.type": string(kind)} if kind else {})
    numbers = {f"clip.vision.{name}": scalar(4, number) for name, number in keys.items()}
    path.write_bytes(whole({**said, **numbers}, [RawTensor("a.weight")]))
    return path


def whisper(path: Path) -> Path:
    """Write the header of whisper.cpp's `base`, and nothing behind it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    base = (51865, 1500, 512, 8, 6, 448, 512, 8, 6, 80, 1)
    path.write_bytes(struct.pack("<4s11i", b"lmgg", *base) + bytes(4096))
    return path
