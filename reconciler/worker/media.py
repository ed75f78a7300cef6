"""`/v1/audio/...` and `/v1/images/generations`: sound and pictures in and out."""

from __future__ import annotations

import base64
import time
from typing import Any

from . import multipart, payload
from .errors import Failed, Refused
from .results import kind_of, pictures, sound
from .service import Reply, Request, Service, reply

_TEXT = "text/plain; charset=utf-8"
_MOST_IMAGES = 10
_MOST_PIXELS = 8192


def transcriptions(service: Service, request: Request) -> Reply:
    """Answer with what is said in a recording."""
    fields: dict[str, Any] = {}
    audio: multipart.Part | None = None
    for part in multipart.parse(request.content_type, request.body):
        if part.name == "file":
            audio = part
        else:
            # `timestamp_granularities[]` may be there several times; as a keyword it has no brackets.
            fields[part.name.replace("[]", "")] = part.data.decode("utf-8", "replace")
    if audio is None or not audio.data:
        raise Refused("the form needs a recording as `file`", param="file")
    form = fields.get("response_format", "json")
    if form not in ("json", "text", "verbose_json"):
        raise Refused("response_format must be json, text or verbose_json", param="response_format")
    options = payload.options(fields, "response_format")
    options["filename"] = audio.filename or "audio"
    if "temperature" in options:
        options["temperature"] = _number(options["temperature"])
    said = service.call(request, "transcribe", audio.data, options=options)
    return _transcript(said, form)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refused("temperature must be a number", param="temperature") from None


def _transcript(said: Any, form: str) -> Reply:
    found = {"text": said} if isinstance(said, str) else said
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        what = "a dict without it" if isinstance(said, dict) else kind_of(said)
        raise Failed(f"transcribe returned {what}: a text, or a dict with a text as `text`, is wanted")
    if form == "text":
        return Reply(f"{found['text']}\n".encode("utf-8", "replace"), _TEXT)
    return reply({"task": "transcribe", **found} if form == "verbose_json" else {"text": found["text"]})


def speech(service: Service, request: Request) -> Reply:
    """Answer with a text as sound."""
    body = payload.read_object(request)
    text = payload.text(body, "input")
    said = service.call(request, "speak", text, options=payload.options(body, "input"))
    return Reply(*sound(said, body.get("response_format")))


def generations(service: Service, request: Request) -> Reply:
    """Answer with pictures of a description."""
    body = payload.read_object(request)
    prompt = payload.text(body, "prompt")
    wanted = payload.whole(body, "n", 1, 1, _MOST_IMAGES)
    if body.get("response_format") == "url":
        raise Refused("pictures are sent as b64_json: nothing is kept to be fetched", param="response_format")
    options = {**payload.options(body, "prompt", "n", "response_format"), **_size(body)}
    counts, found = service.method("image").takes("n"), list[bytes]()
    while len(found) < wanted:
        more = {"n": wanted - len(found)} if counts else {}
        found += pictures(service.call(request, "image", prompt, options={**options, **more}))
    data = [{"b64_json": base64.b64encode(picture).decode()} for picture in found[:wanted]]
    return reply({"created": int(time.time()), "data": data})


def _size(body: dict[str, Any]) -> dict[str, int]:
    """Return width and height of `size`, where one is asked for."""
    size = body.get("size")
    if size is None or size == "auto":
        return {}
    width, _, height = size.partition("x") if isinstance(size, str) else ("", "", "")
    if not (width.isdecimal() and height.isdecimal() and 0 < int(width) <= _MOST_PIXELS):
        raise Refused("size must be as 512x512", param="size")
    if not 0 < int(height) <= _MOST_PIXELS:
        raise Refused("size must be as 512x512", param="size")
    return {"width": int(width), "height": int(height)}
