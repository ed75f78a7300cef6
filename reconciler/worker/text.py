"""`/v1/chat/completions` and `/v1/completions`: text out, whole or as it comes."""

from __future__ import annotations

import base64
import binascii
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from . import payload
from .errors import Refused, body_of, told
from .gathered import Gathered
from .service import Answer, Events, Request, Service, reply

_DONE = b"data: [DONE]\n\n"


class _Form:
    """How an answer of one kind is written."""

    def __init__(self, service: Service, chat: bool) -> None:
        self._chat = chat
        self._head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex,
            "created": int(time.time()),
            "model": service.name,
        }

    def whole(self, message: dict[str, Any], finish: str) -> dict[str, Any]:
        """Return a whole answer."""
        choice = {"message": message} if self._chat else {"text": message["content"] or "", "logprobs": None}
        kind = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": [{"index": 0, **choice, "finish_reason": finish}]}

    def part(self, message: Mapping[str, Any], finish: str | None = None) -> bytes:
        """Return one event of a stream."""
        choice = (
            {"delta": message} if self._chat else {"text": message.get("content") or "", "logprobs": None}
        )
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        choices = [{"index": 0, **choice, "finish_reason": finish}]
        return _event({**self._head, "object": kind, "choices": choices})

    def usage(self, usage: Mapping[str, int]) -> bytes:
        """Return the event that tells the tokens at the end of a stream."""
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return _event({**self._head, "object": kind, "choices": [], "usage": usage})


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + reply(value).body + b"\n\n"


def chat(service: Service, request: Request) -> Answer:
    """Answer a conversation."""
    body = payload.read_object(request)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise Refused("messages must be a list of messages", param="messages")
    options = payload.options(body, "messages", "stream", "stream_options")
    if "max_completion_tokens" in options:
        options.setdefault("max_tokens", options["max_completion_tokens"])
    options["images"] = images(messages) if service.method("chat").takes("images") else []
    return _answer(service, request, body, "chat", messages, options)


def complete(service: Service, request: Request) -> Answer:
    """Go on with a text."""
    body = payload.read_object(request)
    options = payload.options(body, "prompt", "stream", "stream_options")
    return _answer(service, request, body, "complete", payload.text(body, "prompt"), options)


def _answer(
    service: Service, request: Request, body: dict[str, Any], name: str, given: Any, options: dict[str, Any]
) -> Answer:
    service.method(name)
    form = _Form(service, name == "chat")
    pieces = service.stream(request, name, given, options)
    if body.get("stream") is True:
        wants_usage = body.get("stream_options")
        counts = isinstance(wants_usage, dict) and wants_usage.get("include_usage") is True
        return Events(_events(service, request, form, pieces, given if counts else None))
    gathered = Gathered(name)
    for piece in pieces:
        gathered.add(piece)
    usage = _usage(service, request, given, gathered.text)
    whole = form.whole(gathered.message(), gathered.finish)
    return reply({**whole, **({"usage": usage} if usage else {})})


def _events(
    service: Service, request: Request, form: _Form, pieces: Iterator[Any], given: Any
) -> Generator[bytes, None, None]:
    """Yield the events of a stream. What fails before the first piece is raised, what fails later is an event."""
    begun, counts = False, given is not None
    gathered = Gathered("chat" if service.role != "completion" else "complete", keeps=counts)
    try:
        for piece in pieces:
            part = gathered.add(piece)
            yield form.part(part if begun else {"role": "assistant", **part})
            begun = True
        yield form.part({}, finish=gathered.finish)
        if counts and (usage := _usage(service, request, given, gathered.text)):
            yield form.usage(usage)
        yield _DONE
    except GeneratorExit:
        raise  # nobody reads any more
    except BaseException as error:
        if not begun:
            raise
        yield _event(body_of(told(error))[1])


def _usage(service: Service, request: Request, given: Any, answer: str) -> dict[str, int] | None:
    """Return the tokens of question and answer, if the class can count them."""
    prompt = given if isinstance(given, str) else "\n".join(map(_words, given))
    tokens = service.count_tokens(request, [prompt])
    if tokens is None:
        return None
    made = service.count_tokens(request, [answer]) or 0
    return {"prompt_tokens": tokens, "completion_tokens": made, "total_tokens": tokens + made}


def _words(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def images(messages: list[dict[str, Any]]) -> list[bytes]:
    """Return the images in a conversation, in order. Only those sent with it are read. Raises Refused."""
    found = []
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "image_url":
                url = part.get("image_url")
                found.append(_image(url.get("url") if isinstance(url, dict) else url))
    return found


def _image(url: Any) -> bytes:
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise Refused("an image must be sent as data:image/...;base64,...", param="messages")
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise Refused(f"an image is no base64: {error}", param="messages") from None
