"""The form of a request that a tokenizer is asked about: without images and audio, which it cannot count."""

import re
from collections.abc import Mapping
from typing import Any

from reconciler.gateway.context.text import AUDIO_KINDS, IMAGE_KINDS, RESPONSES, items_of, kind_of

Body = bytes | bytearray | memoryview


def may_hold_media(body: Body) -> bool:
    """Return whether a JSON body may hold images or audio: by their address they take more tokens than bytes."""
    return holds(body, b"image") or holds(body, b"audio") or holds(body, b"multimodal_data")


def holds(body: Body, word: bytes) -> bool:
    """Return whether a word is anywhere in a body. A view, which is of a large one, is not copied for that."""
    if isinstance(body, memoryview):
        return re.search(re.escape(word), body) is not None
    return word in body


def counted_form(path: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with an empty text in place of each image and sound; nothing large is copied."""
    field = "input" if path == RESPONSES else "messages"
    items = items_of(path, document)
    empty = {"type": "input_text" if path == RESPONSES else "text", "text": ""}
    if not isinstance(items, list):
        return dict(document)
    return {**document, field: [_bare(item, empty) for item in items]}


def _bare(value: Any, empty: dict[str, str]) -> Any:
    if not isinstance(value, Mapping):
        return value
    if kind_of(value) in IMAGE_KINDS | AUDIO_KINDS:
        return empty
    content = value.get("content")
    if not isinstance(content, list):
        return value
    return {**value, "content": [_bare(part, empty) for part in content]}
