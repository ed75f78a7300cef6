"""Content blocks of Anthropic's messages as parts of OpenAI's."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.gateway.messages.fields import flag, invalid, items, mapping, name, string

Part = dict[str, Any]

#: A model's own thoughts are of no use to another model, and chat completions have no place for them.
DROPPED: Final = frozenset({"thinking", "redacted_thinking"})


@dataclass
class Turn:
    """One message, sorted by where its blocks go in a chat."""

    parts: list[Part] = field(default_factory=list)
    calls: list[Part] = field(default_factory=list)
    #: Messages of their own, which a chat wants before anything else the user says.
    results: list[Part] = field(default_factory=list)


def read_turn(content: object, path: str, role: str) -> Turn:
    """Return the blocks of a message; raise `ApiError` (400) for one that a chat has no place for."""
    turn = Turn()
    shown: list[Part] = []
    for i, block in enumerate(blocks(content, path)):
        here = f"{path}.{i}"
        kind = mapping(block, here).get("type")
        if kind in DROPPED:
            continue
        if kind == "tool_use" and role == "assistant":
            turn.calls.append(call(block, here))
        elif kind == "tool_result" and role == "user":
            message, images = result(block, here)
            turn.results.append(message)
            shown += images
        else:
            turn.parts += parts(block, here, images=role == "user")
    turn.parts = shown + turn.parts
    return turn


def blocks(content: object, path: str) -> list[Any]:
    """Return a list of blocks; a string stands for one block of text."""
    if isinstance(content, str):
        return [text_part(content)]
    if content is None:
        raise invalid(path, "is missing")
    return items(content, path)


def parts(block: Part, path: str, *, images: bool) -> list[Part]:
    """Return a block of text, an image or a document as parts of a chat message."""
    match block.get("type"):
        case "text":
            return [text_part(string(block.get("text"), f"{path}.text"))]
        case "image" if images:
            return [image(block, path)]
        case "document":
            return document(block, path, images=images)
        case "search_result":
            return search_result(block, path)
        case kind:
            raise invalid(f"{path}.type", f"{kind!r} cannot be passed to the server of this model")


def text_part(text: str) -> Part:
    """Return a part of text."""
    return {"type": "text", "text": text}


def image(block: Part, path: str) -> Part:
    """Return an image as a chat has it: an address, which may hold the data itself."""
    path = f"{path}.source"
    source = mapping(block.get("source"), path)
    match source.get("type"):
        case "base64":
            kind = name(source.get("media_type"), f"{path}.media_type")
            url = f"data:{kind};base64,{name(source.get('data'), f'{path}.data')}"
        case "url":
            url = name(source.get("url"), f"{path}.url")
        case kind:
            raise invalid(f"{path}.type", f"{kind!r} images cannot be passed on; send 'base64' or 'url'")
    return {"type": "image_url", "image_url": {"url": url}}


def document(block: Part, path: str, *, images: bool) -> list[Part]:
    """Return a document of text or of blocks, headed by its title; PDF files are refused."""
    here = f"{path}.source"
    source = mapping(block.get("source"), here)
    match source.get("type"):
        case "text":
            body = [text_part(string(source.get("data"), f"{here}.data"))]
        case "content":
            inner = blocks(source.get("content"), f"{here}.content")
            body = _each(inner, f"{here}.content", images=images)
        case kind:
            raise invalid(f"{here}.type", f"{kind!r} documents cannot be passed on; send their text")
    head = [string(block[key], f"{path}.{key}") for key in ("title", "context") if block.get(key) is not None]
    return [*([text_part("\n".join(head))] if head else []), *body]


def search_result(block: Part, path: str) -> list[Part]:
    """Return a search result: title, source and text."""
    head = [string(block.get(key), f"{path}.{key}") for key in ("title", "source")]
    inner = items(block.get("content"), f"{path}.content")
    return [text_part("\n".join(head)), *_each(inner, f"{path}.content", images=False)]


def call(block: Part, path: str) -> Part:
    """Return a use of a tool as a tool call."""
    given = mapping(block.get("input"), f"{path}.input")
    try:
        arguments = json.dumps(given, ensure_ascii=False)
    except RecursionError:  # what could just be read can be a little too deep to be written
        raise invalid(f"{path}.input", "is nested too deeply") from None
    function = {"name": name(block.get("name"), f"{path}.name"), "arguments": arguments}
    return {"id": name(block.get("id"), f"{path}.id"), "type": "function", "function": function}


def result(block: Part, path: str) -> tuple[Part, list[Part]]:
    """Return the result of a tool as a message, and its images, for which such a message has no place.

    They go into the user's message after it, with a line that says where they are from.
    """
    used = name(block.get("tool_use_id"), f"{path}.tool_use_id")
    content = block.get("content")
    inner = [] if content is None else blocks(content, f"{path}.content")
    made = _each(inner, f"{path}.content", images=True)
    text = joined(made)
    if flag(block.get("is_error"), f"{path}.is_error"):
        text = f"Error: {text}" if text else "Error"
    images = [part for part in made if part["type"] != "text"]
    if images:
        images.insert(0, text_part(f"Shown by the result of tool call {used}:"))
    return {"role": "tool", "tool_call_id": used, "content": text}, images


def joined(made: list[Part]) -> str:
    """Return the text of all parts, one below the other."""
    return "\n".join(part["text"] for part in made if part["type"] == "text")


def merged(made: list[Part]) -> str | list[Part]:
    """Return the content of a message: a string where text is all there is, since every engine takes that."""
    return joined(made) if all(part["type"] == "text" for part in made) else made


def _each(inner: list[Any], path: str, *, images: bool) -> list[Part]:
    made: list[Part] = []
    for i, block in enumerate(inner):
        made += parts(mapping(block, f"{path}.{i}"), f"{path}.{i}", images=images)
    return made
