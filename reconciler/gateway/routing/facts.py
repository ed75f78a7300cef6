"""What a request is like, as far as the rules of virtual models ask. Each fact is found at its first use."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from reconciler.core.launch import Role
from reconciler.gateway.context.estimate import estimated_tokens
from reconciler.gateway.context.text import IMAGE_KINDS, PROMPTED, TEXTUAL, items_of
from reconciler.gateway.routing.code_like import looks_like_code

if TYPE_CHECKING:
    from reconciler.gateway.call import Call

#: What a path asks for. A path that is not here asks for no role.
ROLES: Final[Mapping[str, Role]] = {
    "/v1/chat/completions": Role.CHAT,
    "/v1/responses": Role.CHAT,
    "/v1/messages": Role.CHAT,
    "/v1/messages/count_tokens": Role.CHAT,
    "/v1/completions": Role.COMPLETION,
    "/completion": Role.COMPLETION,
    "/infill": Role.COMPLETION,
    "/v1/embeddings": Role.EMBEDDING,
    "/v1/rerank": Role.RERANK,
    "/v1/audio/transcriptions": Role.ASR,
    "/v1/audio/translations": Role.ASR,
    "/v1/audio/speech": Role.TTS,
    "/v1/images/generations": Role.IMAGE,
    "/v1/images/edits": Role.IMAGE,
    "/v1/images/variations": Role.IMAGE,
    "/classify": Role.CLASSIFY,
}
#: Bytes of a body for each token, where it is not known what of it is prompt.
_BYTES_PER_TOKEN: Final = 3
_TEXT_KINDS: Final = frozenset({"text", "input_text"})
#: A middle is filled in: what is around it is a program.
_INFILL: Final = "/infill"


class Facts:
    """What one request is like. The body is parsed at most once, by `Call.document`."""

    def __init__(self, call: "Call") -> None:
        self._call = call

    @property
    def role(self) -> Role | None:
        """What the path asks for."""
        return ROLES.get(self._call.path)

    @cached_property
    def image(self) -> bool:
        """Whether there is an image anywhere in the conversation."""
        return any(_has_image(item) for item in self._items())

    @cached_property
    def code(self) -> bool:
        """Whether the last turn of the user has program text in it."""
        return self._call.path == _INFILL or looks_like_code(self._last_turn())

    @property
    def tools(self) -> bool:
        """Whether the request brings tools."""
        document = self._call.document
        return bool(document.get("tools") or document.get("functions"))

    @cached_property
    def tokens(self) -> int:
        """The prompt's tokens by the gateway's plain estimate: a third of its bytes, more beyond ASCII."""
        call = self._call
        if not call.is_json:
            return 0
        # Only the estimate knows what the shapes of these hold, and that an image is no text.
        path = call.path.removesuffix("/count_tokens")
        if path in PROMPTED:
            return estimated_tokens(path, call.document)
        return len(call.body) // _BYTES_PER_TOKEN

    def header(self, name: str) -> list[str]:
        """Return all values of a header; `name` in lower case."""
        wanted = name.encode()
        return [value.decode("latin-1").strip() for key, value in self._call.headers if key == wanted]

    def _items(self) -> list[Any]:
        items = items_of(self._call.path, self._call.document)
        return items if isinstance(items, list) else []

    def _last_turn(self) -> str:
        """Return the text the user said last; results of tools are nobody's words."""
        path, document = self._call.path, self._call.document
        if path in TEXTUAL:
            return "\n".join(_texts(document.get("prompt")))
        items = items_of(path, document)
        if isinstance(items, str):
            return items
        for item in reversed(self._items()):
            if isinstance(item, Mapping) and item.get("role") == "user":
                text = "\n".join(_texts(item.get("content")))
                if text.strip():
                    return text
        return ""


def facts_of(call: "Call") -> Facts:
    """Return what a request is like."""
    return Facts(call)


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of a content: a string, or a list of strings and parts."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, str):
                yield part
            elif isinstance(part, Mapping) and part.get("type") in _TEXT_KINDS:
                text = part.get("text")
                if isinstance(text, str):
                    yield text


def _has_image(item: Any) -> bool:
    """Say whether a message, or a part of one, is or holds an image; results of tools may hold some, too."""
    waiting = [item]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Mapping):
            continue
        if value.get("type") in IMAGE_KINDS:
            return True
        content = value.get("content")
        if isinstance(content, list):
            waiting += content
    return False
