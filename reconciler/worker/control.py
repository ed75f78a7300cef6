"""What reconcile asks of a worker: a proof that it works, its state saved and restored; and `/infer`, for anything."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Callable

from . import media, payload, text, vectors
from .errors import Failed, Refused
from .service import Answer, Events, Reply, Request, Service, reply

Route = Callable[[Service, Request], Answer]
#: Role -> its method, and the paths it is asked at.
BY_ROLE: dict[str, tuple[str, dict[str, Route]]] = {
    "chat": ("chat", {"/v1/chat/completions": text.chat}),
    "vision": ("chat", {"/v1/chat/completions": text.chat}),
    "completion": ("complete", {"/v1/completions": text.complete}),
    "embedding": ("embed", {"/v1/embeddings": vectors.embeddings}),
    "rerank": ("rerank", {"/v1/rerank": vectors.rerank}),
    "asr": ("transcribe", {"/v1/audio/transcriptions": media.transcriptions}),
    "tts": ("speak", {"/v1/audio/speech": media.speech}),
    "image": ("image", {"/v1/images/generations": media.generations}),
    "classify": ("classify", {"/classify": vectors.classify}),
}
_MESSAGES = [{"role": "user", "content": "a"}]
#: The smallest piece of work of each role; a picture would take too long to be one.
_TINY: dict[str, dict[str, Any]] = {
    "chat": {"messages": _MESSAGES, "max_tokens": 1},
    "vision": {"messages": _MESSAGES, "max_tokens": 1},
    "completion": {"prompt": "a", "max_tokens": 1},
    "embedding": {"input": "a"},
    "rerank": {"query": "a", "documents": ["a"]},
    "tts": {"input": "a"},
    "classify": {"input": "a"},
}


def routes(role: str) -> dict[str, Route]:
    """Return what is answered to POST."""
    common: dict[str, Route] = {
        "/infer": infer,
        "/probe": probe,
        "/save_state": save_state,
        "/load_state": load_state,
    }
    return {**common, **BY_ROLE[role][1]}


def infer(service: Service, request: Request) -> Reply:
    """Answer with what `infer` returns. Of an object, `model` is for the gateway: it is left out."""
    body = payload.read(request)
    if isinstance(body, dict):
        body = {name: value for name, value in body.items() if name != "model"}
    return reply(service.call(request, "infer", body, options={}))


def probe(service: Service, request: Request) -> Reply:
    """Do the smallest piece of work there is: the class's own `probe`, or else one of its role."""
    method, paths = BY_ROLE[service.role]
    if service.has("probe"):
        if service.call(request, "probe", options={}) is False:
            raise Failed("its probe returned False")
    elif service.has(method) and (tiny := _tiny(service.role, request)) is not None:
        for route in paths.values():
            answer = route(service, tiny)
            assert not isinstance(answer, Events), "a tiny request asks for no stream"
    return reply({"status": "ok"})


def _tiny(role: str, request: Request) -> Request | None:
    """Return the smallest request of a role, or None if none is small enough."""
    if role == "asr":
        head, tail = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n',
            b"\r\n--x--",
        )
        return Request(
            request.path, head + _silence() + tail, "multipart/form-data; boundary=x", request.gone, tiny=True
        )
    body = _TINY.get(role)
    if body is None:
        return None
    return Request(request.path, json.dumps(body).encode(), "application/json", request.gone, tiny=True)


def _silence(samples: int = 8000, rate: int = 16_000) -> bytes:
    """Return a WAV file of silence: 16 bits, one channel."""
    size = 2 * samples
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", size
    ) + bytes(size)  # fmt: skip


def save_state(service: Service, request: Request) -> Reply:
    """Have the class write its state into a folder; if it returns False, there was nothing to keep."""
    folder = _folder(service, request)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    saved = service.call(request, "save_state", folder, options={}) is not False
    return reply({"saved": saved})


def load_state(service: Service, request: Request) -> Reply:
    """Have the class read its state from a folder."""
    folder = _folder(service, request)
    if not os.path.isdir(folder):
        raise Refused(f"there is no folder {folder}", param="path")
    if service.call(request, "load_state", folder, options={}) is False:
        raise Failed("load_state returned False")
    return reply({"status": "ok"})


def _folder(service: Service, request: Request) -> str:
    """Return the folder that is asked for. Whoever may ask for work must not have files written anywhere."""
    folder = payload.text(payload.read_object(request), "path")
    if service.saves is None:
        raise Refused("it was started without a folder for states (`state.save`)", 403)
    if not os.path.isabs(folder) or "\0" in folder:
        raise Refused("path must be an absolute path", param="path")
    allowed = os.path.realpath(service.saves)
    if os.path.commonpath([allowed, os.path.realpath(folder)]) != allowed:
        raise Refused("path must lie in the folder for states", 403, "path")
    return folder
