"""Reading one request: its body within a limit, and the model it asks for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.types import Receive, Scope

from reconciler.gateway.body import forms
from reconciler.gateway.body.bodies import LARGE, Body, ClientGoneError, read_body, small_body
from reconciler.gateway.body.json_fields import read_fields, read_object, with_model, write_object
from reconciler.gateway.body.room import Room
from reconciler.gateway.errors import ApiError
from reconciler.gateway.protocol.cycle import CYCLE, Cycle
from reconciler.gateway.surface import Path
from reconciler.gateway.upstream.headers import first

__all__ = ["MAX_BODY_BYTES", "Call", "ClientGoneError", "Headers", "read_call"]

#: Bytes of a request body at most, unless the manifest says otherwise. Images travel inside JSON, a third larger
#: than they are.
MAX_BODY_BYTES: Final = 64 * 1024 * 1024


Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Call:
    """One request of the data API, read as far as it had to be."""

    #: Without the query and in its usual spelling: `/rerank` is `/v1/rerank` here.
    path: str
    #: Path and query as they came.
    target: bytes
    method: str
    #: Names in lower case.
    headers: Headers
    body: bytes | bytearray | memoryview
    #: As the client wrote it.
    model: str
    stream: bool = False
    _document: dict[str, Any] | None = None
    _is_json: bool | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object of the body, parsed at the first use; empty for a form. Not to be changed in place."""
        if self._document is None:
            self._document = read_object(self.body) if self.is_json else {}
        return self._document

    @property
    def is_json(self) -> bool:
        """Whether the body is JSON (not a form)."""
        if self._is_json is None:
            self._is_json = not forms.is_form(self.header(b"content-type"))
        return self._is_json

    def header(self, name: bytes) -> bytes:
        """Return the first value of a header, b"" if there is none; `name` in lower case."""
        return next((value for key, value in self.headers if key == name), b"")

    def with_document(self, document: dict[str, Any]) -> "Call":
        """Return the call with another JSON body."""
        return replace(self, body=write_object(document), _document=document)

    def for_model(self, name: str) -> "Call":
        """Return the call as an engine wants it that knows the model as `name`; no other byte is touched."""
        if name == self.model:
            return self
        body: bytes | memoryview
        if self.is_json:
            body = with_model(self.body, name, self.model)
        else:
            form = forms.fields(self.body, self.header(b"content-type"))
            body = forms.with_field(self.body, form, "model", name)
        return replace(self, body=body, model=name, _document=None)


async def read_call(
    scope: Scope,
    receive: Receive,
    path: Path,
    limit: int,
    room: Room,
    keep: Callable[[Body], None] = lambda _body: None,
) -> Call:
    """Read one request of a path of the data API; `keep` gets the body, to be released once it is not needed.

    Raises `ApiError` (400, 413, 503 without room for it) and `ClientGoneError`.
    """
    headers: Headers = scope["headers"]
    content_type = first(headers, b"content-type")
    form = forms.is_form(content_type)
    if form and not path.form:
        raise ApiError("invalid_json", f"{scope['path']} takes a JSON object, not a form")
    cycle: Cycle = scope[CYCLE]
    here = cycle.arrived(LARGE)
    if here is not None:
        body = small_body(headers, here, limit, text=not form)
    else:
        body = await read_body(headers, receive, limit, room, text=not form)
    keep(body)
    query: bytes = scope["query_string"]
    target: bytes = scope["raw_path"]
    if query:
        target += b"?" + query
    model: object
    stream: object
    if form:
        found = forms.fields(body.data, content_type)
        model = forms.value_of(body.data, found, "model")
        stream = forms.value_of(body.data, found, "stream") == "true"
    else:
        fields = read_fields(body.data)
        model, stream = fields.model, fields.stream
    if model is None and path.query and query:
        model = parse_qs(query.decode("latin-1")).get("model", [None])[0]
    name = _model_name(model)
    return Call(path.name, target, scope["method"], headers, body.data, name, stream is True, None, not form)


def _model_name(model: object) -> str:
    if isinstance(model, str) and model:
        return model
    what = "is missing" if model is None else "is empty" if model == "" else "is not a string"
    raise ApiError("invalid_model", f"the field 'model' {what}; GET /v1/models lists the names")
