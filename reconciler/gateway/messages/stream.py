"""The pieces of a streamed chat answer as the events of a streamed message."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from reconciler.gateway.errors import ApiError
from reconciler.gateway.messages.answer import (
    arguments_text,
    envelope,
    first_choice,
    reasoning,
    spoken,
    stopped,
    tokens,
    tool_calls,
    tool_id,
    tool_name,
    usage,
)
from reconciler.gateway.messages.blocks import Blocks, Event
from reconciler.gateway.messages.errors import error_body, said

DONE: Final = "[DONE]"


class MessageStream:
    """One streamed answer. `model` is the name that the client asked for.

    The engine tells the tokens of the prompt only at the end; `input_tokens` is what the message begins with.
    """

    def __init__(self, model: str, input_tokens: int = 0) -> None:
        self._model = model
        self._input_tokens = input_tokens
        self._blocks = Blocks()
        self._begun = False
        self._stop: tuple[str, str | None] | None = None
        self._usage: object = None
        self._pieces = 0
        self._refused = False
        #: Whether the last event was sent: the end, or an error.
        self.over = False

    @property
    def tokens(self) -> tuple[int, int] | None:
        """Tokens of the prompt and of the answer, if the engine said so by now."""
        return tokens(self._usage)

    def data(self, text: str) -> Iterator[Event]:
        """Yield the events for the data of one of the engine's events."""
        if self.over:
            return
        if text.strip() == DONE:
            yield from self._end()
            return
        try:
            yield from self.chunk(_parsed(text))
        except ApiError as error:
            yield self.fail(error)

    def chunk(self, value: dict[str, Any]) -> Iterator[Event]:
        """Yield the events for one piece. Raises `ApiError` (502) for a piece that makes no sense."""
        if value.get("error"):
            code, message = said(value)
            yield self._failed(_status(value["error"]), code, message or "the model's server failed")
            return
        yield from self._begin(value.get("id"))
        self._usage = value.get("usage") or self._usage
        choice = first_choice(value)
        if choice is None:
            return
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._take(delta)
            yield from self._blocks.ready()
        if choice.get("finish_reason"):
            self._stop = stopped(choice, called=self._blocks.called)

    def finish(self) -> Iterator[Event]:
        """Yield what is left when the engine's stream has ended.

        One that ended before the engine said why it stopped is an error, not an end: the answer is not whole.
        """
        if self.over:
            return
        if self._stop is not None:
            yield from self._end()
        else:
            text = "the model's server ended the stream in the middle of the answer"
            yield self.fail(ApiError("upstream_error", text))

    def fail(self, error: ApiError) -> Event:
        """Return the event with which the stream ends for an error of ours."""
        return self._failed(error.status, error.code, error.message)

    def _failed(self, status: int, code: str, message: str) -> Event:
        self.over = True
        return error_body(status, code, message)

    def _begin(self, chat_id: object) -> Iterator[Event]:
        if self._begun:
            return
        self._begun = True
        counted = usage(None) | {"input_tokens": self._input_tokens}
        empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": counted}
        yield {"type": "message_start", "message": envelope(chat_id, self._model) | empty}
        yield {"type": "ping"}

    def _take(self, delta: dict[str, Any]) -> None:
        self._refused = self._refused or bool(delta.get("refusal"))
        thought, text, calls = reasoning(delta), spoken(delta), tool_calls(delta)
        self._pieces += bool(thought) + bool(text) + len(calls)
        if thought:
            self._blocks.words("thinking", thought)
        if text:
            self._blocks.words("text", text)
        for position, call in enumerate(calls):
            number = call.get("index")
            number = number if isinstance(number, int) else position
            self._blocks.call(number, tool_id(call), tool_name(call), arguments_text(call))

    def _end(self) -> Iterator[Event]:
        yield from self._begin(None)
        try:
            yield from self._blocks.rest()
        except ApiError as error:
            yield self.fail(error)
            return
        self.over = True
        reason, sequence = (
            ("refusal", None)
            if self._refused
            else self._stop or ("tool_use" if self._blocks.called else "end_turn", None)
        )
        counted = usage(self._usage)
        if not self._usage:  # nobody counted: an engine sends about a token a piece
            counted |= {"input_tokens": self._input_tokens, "output_tokens": self._pieces}
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        yield {"type": "message_delta", "delta": delta, "usage": counted}
        yield {"type": "message_stop"}


def encode(events: Iterable[Event]) -> bytes:
    """Return events as bytes; characters beyond ASCII are escaped, so that half of a surrogate pair passes, too."""
    return b"".join(
        b"event: %s\ndata: %s\n\n"
        % (event["type"].encode(), json.dumps(event, separators=(",", ":")).encode())
        for event in events
    )


def as_chunk(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a complete chat answer as the only piece of a streamed one."""
    choice = first_choice(answer)
    if choice is None or not isinstance(choice.get("message"), dict):
        raise ApiError(
            "upstream_error", "the model's server answered with something that is no chat completion"
        )
    whole = {**choice, "delta": choice["message"], "finish_reason": choice.get("finish_reason") or "stop"}
    return {**answer, "choices": [whole]}


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ApiError(
            "upstream_error", f"the model's server sent an event that is no JSON object: {text[:200]}"
        )
    return value


def _status(error: object) -> int:
    """Return the status that an error event tells, 500 where it tells none."""
    told = (error.get("code"), error.get("status")) if isinstance(error, dict) else ()
    return next((code for code in told if isinstance(code, int) and 400 <= code < 600), 500)
