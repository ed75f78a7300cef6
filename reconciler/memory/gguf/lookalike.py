"""What is found in place of a GGUF file, told by how it begins."""

from typing import Final

from reconciler.memory.lookalike import lookalike

#: How weights of llama.cpp began before GGUF.
_BEFORE: Final = (b"lmgg", b"fmgg", b"tjgg")


def other_file(head: bytes, size: int) -> str | None:
    """Return what a file of `size` bytes that begins with `head` (64 bytes or all) is, or None if it may be GGUF."""
    if size == 0:
        return "is empty"
    if sentence := lookalike(head, "GGUF"):
        return sentence
    if head.startswith(_BEFORE):
        return f"is not GGUF: it begins with {head[:4]!r}, a format older than GGUF: convert it"
    if not head.startswith(b"GGUF"[: len(head)]):
        if not head.strip(b"\0"):
            return "is not GGUF: it begins with zeros, so the download probably only reserved its space"
        return f"is not GGUF: it begins with {head[:4]!r}"
    return None
