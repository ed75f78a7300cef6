"""What a class returned, looked at before a client takes it for what was asked."""

from __future__ import annotations

import math
from typing import Any

from .errors import Failed


def number(name: str, value: Any, wanted: str) -> float:
    """Return a finite number as Python's own. Raises Failed, in a sentence that ends with what is wanted."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(plain, bool) or not (isinstance(plain, (int, float)) or hasattr(plain, "__float__")):
        raise Failed(f"{name} returned {kind_of(plain)} where a number belongs: {wanted}")
    try:
        found = plain if isinstance(plain, int) else float(plain)
        finite = math.isfinite(found)
    except OverflowError:
        finite = False
    if not finite:
        raise Failed(f"{name} returned {kind_of(plain)}: {wanted}")
    return found


def kind_of(value: Any) -> str:
    """Return what a value is, for people.

    >>> kind_of(None), kind_of([1]), kind_of(True), kind_of(float("nan")), kind_of("x" * 99)
    ('null', 'a list', 'true', 'NaN', 'a text')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "an infinite number"
    if isinstance(value, int):
        return "a number that is too large"
    if isinstance(value, str):
        return "a text"
    kind = type(value).__name__
    return f"an {kind}" if kind[:1].lower() in "aeiou" else f"a {kind}"


#: First bytes of a picture.
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
#: First bytes of a file -> what it is.
_SOUNDS = (
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfa", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
)


def sound(value: Any, form: object) -> tuple[bytes, str]:
    """Return what `speak` returned, and what it is. Raises Failed unless it is a sound; `pcm` has no head."""
    data = _bytes("speak", value, "bytes of a WAV, Ogg, FLAC or MP3 file are wanted")
    if form == "pcm" and data:
        return data, "application/octet-stream"
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return data, "audio/wav"
    for head, kind in _SOUNDS:
        if data.startswith(head):
            return data, kind
    raise Failed(f"speak returned {_start(data)}: bytes of a WAV, Ogg, FLAC or MP3 file are wanted")


def pictures(value: Any) -> list[bytes]:
    """Return what `image` returned as a list. Raises Failed unless each is a picture."""
    wanted = "bytes of a PNG (or JPEG, WebP) file, or a list of them, are wanted"
    found = value if isinstance(value, (list, tuple)) else [value]
    if not found:
        raise Failed(f"image returned an empty list: {wanted}")
    files = [_bytes("image", picture, wanted) for picture in found]
    for data in files:
        if not (data.startswith(_PICTURES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")):
            raise Failed(f"image returned {_start(data)}: {wanted}")
    return files


def _bytes(name: str, value: Any, wanted: str) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise Failed(f"{name} returned {kind_of(value)}: {wanted}")
    return bytes(value)


def _start(data: bytes) -> str:
    return f"{len(data)} bytes that begin with {data[:8]!r}" if data else "no bytes"
