"""What of a request becomes prompt, and how much of it there is. Large base64 is skipped, never copied."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from reconciler.gateway.errors import ApiError

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
RESPONSES: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"
#: llama.cpp's own: a completion, and one of the middle of a text.
COMPLETION: Final = "/completion"
INFILL: Final = "/infill"
#: The paths whose prompt is a text, or token ids, instead of a conversation.
TEXTUAL: Final = frozenset({COMPLETIONS, COMPLETION, INFILL})
#: The paths whose requests have a prompt that a context must hold.
PROMPTED: Final = frozenset({CHAT, RESPONSES, MESSAGES}) | TEXTUAL

#: Tokens one image is taken for: 256 (Gemma 3), 576 to 2880 (LLaVA), up to 4096 (Qwen-VL at its largest).
IMAGE_TOKENS: Final = 1024
#: Tokens at most around one further file of a completion of a middle.
EXTRA_TOKENS: Final = 8
#: Bytes of base64 one token of audio is taken for: 25 tokens a second of speech at 24 kbit/s.
AUDIO_BYTES: Final = 160

#: Of these a vocabulary has tokens of 16 to 128 in a row.
_THIN: Final = " \t\n\r-=_*#.~+|"
#: Characters of one text that are searched for them; what is behind counts for nothing.
_SEARCHED: Final = 4 * 1024 * 1024

_TEXT: Final = frozenset({"text", "input_text", "output_text", "refusal"})
IMAGE_KINDS: Final = frozenset({"image", "image_url", "input_image"})
AUDIO_KINDS: Final = frozenset({"audio", "input_audio"})
_CALL: Final = frozenset({"tool_use", "function_call", "custom_tool_call"})
_RESULT: Final = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
#: Fields that hold a content, by the type of what they stand in.
_CONTENT: Final[Mapping[str | None, frozenset[str]]] = {
    **dict.fromkeys(_TEXT | {None, "message"}, frozenset({"content", "text", "refusal"})),
    **dict.fromkeys(_RESULT, frozenset({"content", "output"})),
}
#: Part of a request without being part of its prompt, whatever the template.
_SETTINGS: Final = frozenset({"type", "id", "status", "cache_control", "index"})


@dataclass(frozen=True, slots=True)
class Extent:
    """How much prompt there is. Bytes are those of UTF-8."""

    #: Bytes of text that every template puts into the prompt.
    text: int = 0
    #: Bytes of what some templates put there (tools, reasoning, fields we do not know).
    other: int = 0
    #: Of both: bytes of characters beyond ASCII.
    wide: int = 0
    #: Token ids that were given as such.
    ids: int = 0
    #: Tokens that images and audio are taken for.
    media: int = 0
    #: Messages, each of which a template puts words around.
    messages: int = 0

    def __add__(self, more: "Extent") -> "Extent":
        return Extent(
            self.text + more.text,
            self.other + more.other,
            self.wide + more.wide,
            self.ids + more.ids,
            self.media + more.media,
            self.messages + more.messages,
        )


class Piece(NamedTuple):
    """A text of the prompt, certain or possible, or tokens of media."""

    text: str = ""
    certain: bool = True
    media: int = 0


def extent_of(path: str, document: Mapping[str, Any]) -> Extent:
    """Return the extent of a whole request. Raises `ApiError` (400) for one that is nested too deeply."""
    try:
        if path in TEXTUAL:
            around = _sum(_around(document)) if path == INFILL else _sum(_possible(document.get("suffix")))
            return _of_prompt(document.get("prompt")) + around
        items = items_of(path, document)
        if isinstance(items, list):
            pieces = itertools.chain.from_iterable(map(item_pieces, items))
            return base_of(path, document) + _sum(pieces, messages=len(items))
        return base_of(path, document) + _sum(content_pieces(items), messages=1)
    except RecursionError:
        raise ApiError("invalid_json", "the body is nested too deeply") from None


def solid_bytes(path: str, document: Mapping[str, Any]) -> int:
    """Return the bytes of text that are in the prompt for certain, without blanks and drawn lines."""
    return sum(_solid(piece.text) for piece in _certain(path, document))


def _certain(path: str, document: Mapping[str, Any]) -> Iterator[Piece]:
    if path in TEXTUAL:
        prompt = text_of(document.get("prompt"))
        pieces = [Piece(prompt)] if isinstance(prompt, str) else []
        found: Iterator[Piece] = itertools.chain(pieces, _around(document) if path == INFILL else ())
    else:
        found = content_pieces(items_of(path, document))
    yield from (piece for piece in found if piece.certain)


def _solid(text: str) -> int:
    size, _ = _bytes_of(text[:_SEARCHED])
    return size - sum(text.count(drawn, 0, _SEARCHED) for drawn in _THIN)


def items_of(path: str, document: Mapping[str, Any]) -> Any:
    """Return what the conversation is: a list of messages or items, for `/v1/responses` perhaps a string."""
    return document.get("input" if path == RESPONSES else "messages")


def base_of(path: str, document: Mapping[str, Any]) -> Extent:
    """Return the extent of everything but the conversation: instructions, tools, forms of answers."""
    total = Extent()
    for field in ("system", "instructions"):
        if document.get(field):
            total += _sum(content_pieces(document[field]), messages=1)
    for field in ("tools", "functions", "response_format", "text"):
        if document.get(field):
            total += _sum(_possible(document[field]))
    return total


def item_extent(item: Any) -> Extent:
    """Return the extent of one message or item."""
    return _sum(item_pieces(item), messages=1)


def item_pieces(item: Any) -> Iterator[Piece]:
    """Yield what one message, item or part holds."""
    if not isinstance(item, Mapping):
        yield from content_pieces(item)
        return
    kind = kind_of(item)
    if kind in IMAGE_KINDS:
        yield Piece(media=IMAGE_TOKENS)
    elif kind in AUDIO_KINDS:
        yield Piece(media=_characters(item) // AUDIO_BYTES + 1)
    else:
        for name, value in item.items():
            if type(value) is str and name == "content" and kind is None:
                yield Piece(value)  # the usual message, without detours
            else:
                yield from _field_pieces(kind, name, value)


def kind_of(item: Mapping[str, Any]) -> str | None:
    """Return the type of a message, item or part; None = it has none."""
    kind = item.get("type")
    return None if kind is None else kind if isinstance(kind, str) else "unknown"


def content_pieces(value: Any) -> Iterator[Piece]:
    """Yield what a content holds: a string, or a list of parts."""
    if isinstance(value, str):
        yield Piece(value)
    elif isinstance(value, list):
        for part in value:
            yield from item_pieces(part)
    else:
        yield from _possible(value)


def _field_pieces(kind: str | None, name: str, value: Any) -> Iterator[Piece]:
    if name in _SETTINGS or value is None:
        return
    if name in _CONTENT.get(kind, ()):
        yield from content_pieces(value)
    elif name in ("name", "input", "arguments") and (kind is None or kind in _CALL):
        yield from (Piece(value),) if isinstance(value, str) else _possible(value)
    elif name == "tool_calls" and isinstance(value, list):
        for call in value:
            function = call.get("function") if isinstance(call, Mapping) else None
            yield from item_pieces(function if function is not None else call)
    elif name == "role" and isinstance(value, str):
        yield Piece(value, certain=False)
    else:
        yield from _possible(value)


def _possible(value: Any) -> Iterator[Piece]:
    """Yield a value as what may be in the prompt, in JSON if it is not text."""
    if isinstance(value, str):
        yield Piece(value, certain=False)
    elif value is not None:
        yield Piece(json.dumps(value, ensure_ascii=False), certain=False)


def _characters(value: Any) -> int:
    return sum(len(piece.text) for piece in _possible(value))


def _sum(pieces: Iterator[Piece], *, messages: int = 0) -> Extent:
    text = other = wide = media = 0
    for piece in pieces:
        media += piece.media
        size, beyond = _bytes_of(piece.text)
        wide += beyond
        if piece.certain:
            text += size
        else:
            other += size
    return Extent(text=text, other=other, wide=wide, media=media, messages=messages)


def _bytes_of(text: str) -> tuple[int, int]:
    """Return the bytes of a text in UTF-8, and how many of them are of characters beyond ASCII."""
    if text.isascii():
        return len(text), 0
    size = len(text.encode("utf-8", "surrogatepass"))
    return size, size - len(text.encode("ascii", "ignore"))


def prompts_of(prompt: Any) -> list[Any]:
    """Return the prompts of a completion: one, or a list of which each is answered for itself."""
    if isinstance(prompt, list) and prompt and not any(isinstance(part, int) for part in prompt):
        return prompt
    return [prompt]


def _of_prompt(prompt: Any) -> Extent:
    """Return the extent of the longest prompt: each must fit for itself."""
    extents = [_of_one(part) for part in prompts_of(prompt)]
    return max(extents, key=lambda extent: extent.text + extent.other + extent.ids)


def text_of(prompt: Any) -> Any:
    """Return the text of a prompt that comes with images beside it, as llama.cpp takes it; any other as it is."""
    return (
        prompt.get("prompt_string") if isinstance(prompt, Mapping) and "prompt_string" in prompt else prompt
    )


def infilled(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that a middle is filled in between, and those given as further context."""
    for field in ("input_prefix", "input_suffix"):
        if isinstance(text := document.get(field), str):
            yield text
    extra = document.get("input_extra")
    for part in extra if isinstance(extra, list) else ():
        for field in ("filename", "text"):
            if isinstance(part, Mapping) and isinstance(text := part.get(field), str):
                yield text


def _around(document: Mapping[str, Any]) -> Iterator[Piece]:
    yield from map(Piece, infilled(document))
    extra = document.get("input_extra")
    # The marks around each: four tokens were seen, where a vocabulary has them.
    yield Piece(media=EXTRA_TOKENS * (len(extra) if isinstance(extra, list) else 0))


def _of_one(prompt: Any) -> Extent:
    if isinstance(prompt, Mapping) and "prompt_string" in prompt:
        beside = prompt.get("multimodal_data")
        media = IMAGE_TOKENS * (len(beside) if isinstance(beside, list) else 0)
        return _sum(content_pieces(text_of(prompt))) + Extent(media=media)
    if not isinstance(prompt, list):
        return _sum(content_pieces(prompt))
    total = Extent(ids=sum(isinstance(part, int) for part in prompt))
    for part in prompt:
        if isinstance(part, str):
            total += _sum(iter([Piece(part)]))
    return total
