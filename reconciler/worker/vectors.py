"""`/v1/embeddings`, `/v1/rerank` and `/classify`: items in, one result for each out, worked on in batches."""

from __future__ import annotations

import array
import base64
import math
import sys
from contextlib import suppress
from typing import Any

from . import payload
from .errors import Failed, Refused
from .results import kind_of, number
from .service import Reply, Request, Service, reply

_WANTED = "a list of finite numbers is wanted"
_PLAIN = frozenset({float, int})


def embeddings(service: Service, request: Request) -> Reply:
    """Answer with one vector for each text."""
    body = payload.read_object(request)
    texts = payload.texts(body, "input")
    form = body.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise Refused("encoding_format must be float or base64", param="encoding_format")
    options = payload.options(body, "input", "encoding_format")
    vectors = _same_length([_vector(row) for row in service.batch(request, "embed", texts, options)])
    data = [
        {"object": "embedding", "index": i, "embedding": _packed(vector) if form == "base64" else vector}
        for i, vector in enumerate(vectors)
    ]
    tokens = service.count_tokens(request, texts) or 0
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return reply({"object": "list", "model": service.name, "data": data, "usage": usage})


def _vector(row: Any) -> list[float]:
    """Return a row as a vector. Raises Failed for anything else: a client would compute with it."""
    if not isinstance(row, (list, tuple)):
        raise Failed(f"embed returned {kind_of(row)} for a text: {_WANTED}")
    if not row:
        raise Failed(f"embed returned an empty list for a text: {_WANTED}")
    if _PLAIN.issuperset(map(type, row)):
        # A sum is finite only if all that is in it is; one that is not may be of large numbers.
        with suppress(OverflowError):
            if math.isfinite(sum(row)):
                return list(row)
    return [number("embed", value, _WANTED) for value in row]


def _same_length(vectors: list[list[float]]) -> list[list[float]]:
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise Failed(
            f"embed returned vectors of {lengths[0]} and of {lengths[-1]} numbers: all must be as long"
        )
    return vectors


def _packed(vector: list[float]) -> str:
    """Return a vector as base64 of little-endian 32-bit floats."""
    numbers = array.array("f", vector)
    if not all(map(math.isfinite, numbers)):
        raise Failed(f"embed returned a number that 32 bits cannot hold: {_WANTED}")
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def rerank(service: Service, request: Request) -> Reply:
    """Answer with the documents' scores, the best first."""
    body = payload.read_object(request)
    query = payload.text(body, "query")
    documents = _documents(body)
    most = payload.whole(body, "top_n", len(documents), 1, 1 << 31)
    options = payload.options(body, "query", "documents", "top_n", "return_documents")
    scores = [_score(row) for row in service.batch(request, "rerank", documents, options, query)]
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:most]
    results: list[dict[str, Any]] = [{"index": i, "relevance_score": scores[i]} for i in order]
    if body.get("return_documents") is True:
        for result in results:
            result["document"] = {"text": documents[result["index"]]}
    tokens = service.count_tokens(request, [query, *documents]) or 0
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return reply({"object": "list", "model": service.name, "results": results, "usage": usage})


def _documents(body: dict[str, Any]) -> list[str]:
    found = body.get("documents")
    if not isinstance(found, list) or not found:
        raise Refused("documents must be a list of texts", param="documents")
    plain: list[Any] = [item.get("text") if isinstance(item, dict) else item for item in found]
    if not all(isinstance(item, str) for item in plain):
        raise Refused("documents must be texts, or objects with `text`", param="documents")
    return plain


def _score(row: Any) -> float:
    if isinstance(row, (list, tuple)) and len(row) == 1:
        row = row[0]
    return number("rerank", row, "a finite number for each document is wanted")


def classify(service: Service, request: Request) -> Reply:
    """Answer with a label, or whatever the class says, for each input."""
    body = payload.read_object(request)
    given = body.get("input")
    items = given if isinstance(given, list) else [given]
    if given is None or not items:
        raise Refused("`input` must be one input or a list of inputs", param="input")
    results = service.batch(request, "classify", items, payload.options(body, "input"))
    data = [{**_label(row), "index": i} for i, row in enumerate(results)]
    return reply({"object": "list", "model": service.name, "data": data})


def _label(row: Any) -> dict[str, Any]:
    if isinstance(row, dict):
        return {"index": 0, **row}
    if isinstance(row, (str, bool)):
        return {"index": 0, "label": row}
    return {"index": 0, "label": number("classify", row, "a label, or a dict, for each input is wanted")}
