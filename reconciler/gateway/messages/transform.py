"""From the bytes of an engine's chat answer to those of a message: streamed, whole, or an error."""

import json
from collections.abc import Iterator
from typing import Any, Final

from reconciler.gateway.errors import ApiError
from reconciler.gateway.messages.answer import from_chat, tokens
from reconciler.gateway.messages.errors import engine_error
from reconciler.gateway.messages.sse import MAX_EVENT_BYTES, Event, EventReader
from reconciler.gateway.messages.stream import MessageStream, as_chunk, encode

Headers = list[tuple[bytes, bytes]]

#: Where a translated request goes. Anthropic's query (`?beta=true`) means nothing there.
CHAT_TARGET: Final = b"/v1/chat/completions"
#: Bytes of an answer that has to be read whole before it can be translated, at most.
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

EVENT_STREAM: Final = b"text/event-stream"
#: Of the old body, not of the new one.
REPLACED: Final = frozenset(
    {b"content-type", b"content-length", b"content-encoding", b"etag", b"content-md5"}
)


def upstream_headers(headers: Headers) -> Headers:
    """Return a client's headers for the translated request; names are in lower case.

    The answer has to be readable here, so none that is compressed is asked for.
    """
    kept = [
        (name, value)
        for name, value in headers
        if name not in (b"accept-encoding", b"content-type", b"accept") and not name.startswith(b"anthropic-")
    ]
    return [*kept, (b"content-type", b"application/json"), (b"accept-encoding", b"identity")]


def counted(tokens: int) -> dict[str, int]:
    """Return the answer of `/v1/messages/count_tokens`."""
    return {"input_tokens": tokens}


class MessagesTransform:
    """Translates one answer: `head` once, `feed` for each piece, `finish` at the engine's proper end.

    `stream` says whether the client asked for events; `model` is the name it asked for.
    """

    def __init__(
        self, model: str, *, stream: bool, input_tokens: int = 0, limit: int = MAX_ANSWER_BYTES
    ) -> None:
        self._model = model
        self._stream = stream
        self._limit = limit
        self._events: EventReader | None = None
        self._message = MessageStream(model, input_tokens)
        self._status = 200
        self._body = bytearray()
        self._tokens: tuple[int, int] | None = None

    @property
    def tokens(self) -> tuple[int, int] | None:
        """Tokens of the prompt and of the answer, if the engine said so by now."""
        return self._tokens or self._message.tokens

    def head(self, status: int, headers: Headers) -> Headers:
        """Return the headers of the translated answer. Raises `ApiError` (502) for a compressed one."""
        named = {name.lower(): value for name, value in headers}
        coding = named.get(b"content-encoding", b"identity").strip().lower()
        if coding not in (b"", b"identity"):
            raise ApiError(
                "upstream_error", "the model's server compressed its answer without being asked to"
            )
        self._status = status
        if status < 400 and named.get(b"content-type", b"").lower().startswith(EVENT_STREAM):
            self._events = EventReader(MAX_EVENT_BYTES)
        streamed = self._events is not None or (status < 400 and self._stream)
        kind = EVENT_STREAM if streamed else b"application/json"
        kept = [(name, value) for name, value in headers if name.lower() not in REPLACED]
        return [*kept, (b"content-type", kind)]

    def feed(self, piece: bytes) -> bytes:
        """Return what can be said after one more piece. Raises `ApiError` (502) for a whole answer that is too long."""
        if self._events is None:
            if len(self._body) + len(piece) > self._limit:
                text = f"the model's server answered with more than {self._limit} bytes"
                raise ApiError("upstream_error", text)
            self._body += piece
            return b""
        return b"" if self._message.over else self._translated(self._events.feed(piece))

    def finish(self) -> bytes:
        """Return the rest. Raises `ApiError` (502) for a whole answer that is no chat completion."""
        if self._events is not None:
            said = self._translated(self._events.finish())
            return said + encode(self._message.finish())
        if self._status >= 400:
            return _json(engine_error(self._status, bytes(self._body)))
        if not self._stream:
            answer = _answer(bytes(self._body))
            self._tokens = tokens(answer.get("usage"))
            return _json(from_chat(answer, self._model))
        try:
            said = encode(self._message.chunk(as_chunk(_answer(bytes(self._body)))))
        except ApiError as error:
            return self.fail(error)
        return said + encode(self._message.finish())

    def fail(self, error: ApiError) -> bytes:
        """Return the last event of a stream that an error of ours ends; empty if its end was already said."""
        return b"" if self._message.over else encode([self._message.fail(error)])

    def _translated(self, events: Iterator[Event]) -> bytes:
        said: list[dict[str, Any]] = []
        try:
            for event in events:
                # A comment keeps the connection alive; to these clients that is a ping.
                ping = event.comment and not self._message.over
                said += [{"type": "ping"}] if ping else self._message.data(event.data)
        except ApiError as error:
            said.append(self._message.fail(error))
        return encode(said)


def _answer(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ApiError("upstream_error", "the model's server answered with something that is no JSON object")
    return value


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except RecursionError:  # what could just be read can be a little too deep to be written
        raise ApiError("upstream_error", "the model's server sent an answer nested too deeply") from None
