"""What is often found in place of a model's file, told by how it begins."""

from typing import Final, Literal

#: What a file should be. JSON is a file beside the weights, such as `config.json`.
Wanted = Literal["GGUF", "safetensors", "JSON"]

_BOM: Final = b"\xef\xbb\xbf"
_HTML: Final = "is an HTML page, not {what}: the download answered with a web page"
#: Beginning in lower case, blanks in front left out; what the file is; what it then cannot be mistaken for.
_OTHERS: Final = (
    (b"version https://git-lfs", "is a Git LFS pointer, not {what}: run `git lfs pull`", ()),
    (b"/annex/objects", "is a git-annex pointer, not {what}: run `git annex get`", ()),
    (b"<!doctype", _HTML, ()),
    (b"<html", _HTML, ()),
    (b"<!--", _HTML, ()),
    (b"<?xml", "is XML, not {what}: the download answered with an error", ()),
    (b'{"', "is JSON, not {what}: the download answered with an error", ("JSON",)),
    (b"pk\x03\x04", "is a zip archive (PyTorch weights?), not {wanted}", ()),
    (b"\x1f\x8b", "is compressed with gzip: unpack it", ()),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: unpack it", ()),
    (b"gguf", "is GGUF, not {wanted}", ("GGUF",)),
)


def lookalike(head: bytes, wanted: Wanted) -> str | None:
    """Return what a file that begins with `head` (64 bytes, or all) is instead, as a sentence without its subject.

    None if it may be what is wanted.
    """
    if head[8:9] == b"{" and not any(head[4:8]):
        # A length in 8 bytes, and JSON: the length may begin like any of the others.
        return None if wanted == "safetensors" else f"is a safetensors file, not {wanted}: convert it"
    beginning = head.lstrip().removeprefix(_BOM).lstrip().lower()
    what = "this file" if wanted == "JSON" else "the weights"
    for start, sentence, fine in _OTHERS:
        if beginning.startswith(start) and wanted not in fine:
            return sentence.format(what=what, wanted=wanted)
    return None
