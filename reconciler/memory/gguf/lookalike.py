"""What is often found in place of a GGUF file, told by how it begins."""

from typing import Final

#: Lower case, blanks in front left out.
_OTHERS: Final = (
    (b"version https://git-lfs", "is a Git LFS pointer, not the weights: run `git lfs pull`"),
    (b"/annex/objects", "is a git-annex pointer, not the weights: run `git annex get`"),
    (b"<!doctype", "is an HTML page, not the weights: the download answered with a web page"),
    (b"<html", "is an HTML page, not the weights: the download answered with a web page"),
    (b"<?xml", "is XML, not the weights: the download answered with an error"),
    (b'{"', "is JSON, not the weights: the download answered with an error"),
    (b"pk\x03\x04", "is a zip archive (PyTorch weights?), not GGUF"),
    (b"\x1f\x8b", "is compressed with gzip: unpack it"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: unpack it"),
)
#: How weights of llama.cpp began before GGUF.
_BEFORE: Final = (b"lmgg", b"fmgg", b"tjgg")


def other_file(head: bytes, size: int) -> str | None:
    """Return what a file of `size` bytes that begins with `head` (64 bytes or all) is, or None if it may be GGUF."""
    if size == 0:
        return "is empty"
    beginning = head.lstrip().lower()
    for start, sentence in _OTHERS:
        if beginning.startswith(start):
            return sentence
    if head[8:10] == b'{"' and not any(head[4:8]):
        return "is a safetensors file, not GGUF: convert it"
    if head.startswith(_BEFORE):
        return f"is not GGUF: it begins with {head[:4]!r}, a format older than GGUF: convert it"
    if not head.startswith(b"GGUF"[: len(head)]):
        if not head.strip(b"\0"):
            return "is not GGUF: it begins with zeros, so the download probably only reserved its space"
        return f"is not GGUF: it begins with {head[:4]!r}"
    return None
