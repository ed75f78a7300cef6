"""The published description of the API is the code's, names every path and error, and what it says is so."""

import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks
from starlette.routing import Route

from gateway_rig import VIEWS, Rig, rig, snapshot
from history_samples import filled
from reconciler.board import Board
from reconciler.core.types import ModelSpec
from reconciler.gateway.control import Control
from reconciler.gateway.errors import CODES
from reconciler.gateway.openapi.__main__ import FILE, main, text
from reconciler.gateway.openapi.document import document
from reconciler.gateway.surface import SURFACE
from reconciler.gateway.views import standard_views
from reconciler.leases import LeaseBook, QueueLimits
from reconciler.manifest.applied import RequestLimits
from reconciler.store import AsyncStore
from reconciler.store.paths import DATABASE

JSON = dict[str, Any]
#: Generated requests to each operation; each is sent again with something wrong in it.
EXAMPLES = 3
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]


def components(kind: str) -> JSON:
    """Return one part of the document's components."""
    found: JSON = document()["components"][kind]
    return found


def test_the_committed_document_is_the_generated_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Write it with `python -m reconciler.gateway.openapi --write`."""
    assert FILE.read_text("utf-8") == text()
    assert main(["--check"]) == 0
    assert main([]) == 64
    assert "usage" in capsys.readouterr().err


def test_every_schema_is_one_and_every_reference_leads_somewhere() -> None:
    for name, schema in components("schemas").items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert json.dumps(schema).count("#/$defs/") == 0, name
    seen = 0

    def walk(node: Any) -> None:
        nonlocal seen
        if isinstance(node, dict) and isinstance(node.get("$ref"), str):
            target: Any = document()
            for step in node["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            seen += 1
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(child)

    walk(document())
    assert seen > 100


def test_every_path_of_the_gateway_is_in_it() -> None:
    described = {(path, method.upper()) for path, item in document()["paths"].items() for method in item}
    assert {(spelling, "POST") for spelling in SURFACE} <= described
    control = Control(LeaseBook(lambda: None), Board(), VIEWS, lambda: 0.0)
    for route in control.routes():
        assert isinstance(route, Route)
        path = route.path.replace(":path", "")
        for method in (route.methods or {"GET"}) - {"HEAD"}:
            assert (path, method) in described, (path, method)


def test_every_error_is_in_it() -> None:
    assert components("schemas")["ErrorCode"]["enum"] == sorted(CODES)
    for name, code in CODES.items():
        assert f"`{name}`" in components("responses")[f"Error{code.status}"]["description"]
        assert f"`{name}`" in components("responses")[f"MessagesError{code.status}"]["description"]


def test_operations_have_names_of_their_own() -> None:
    names = [
        operation["operationId"]
        for item in document()["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict)
    ]
    assert len(set(names)) == len(names)


@pytest.mark.anyio
async def test_it_is_served() -> None:
    async with rig() as r:
        answer = await r.client.get("/api/v1/openapi.json")
        assert answer.status_code == 200
        assert answer.json() == json.loads(text())


def narrowed() -> JSON:
    """Return the document with names of models that lead somewhere now and then."""
    made = copy.deepcopy(document())
    made["components"]["schemas"]["ModelName"] = {"enum": ["chat", "gpt", "nobody"]}
    del made["paths"]["/api/v1/models/{name}/evict"]  # no loop turns here that would load it again
    for spelling, path in SURFACE.items():
        if spelling != path.name:
            del made["paths"][spelling]
    return made


def validate_error(schema: str, answer: JSON) -> None:
    """Fail unless an error of the gateway has exactly the published shape."""
    whole = {"$ref": f"#/components/schemas/{schema}", "components": {"schemas": components("schemas")}}
    jsonschema.Draft202012Validator(whole).validate(answer)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def spoiled(body: Any, value: object, pick: int) -> object:
    """Return a body with one field that is something else than it should be; anything where there is no field."""
    if not isinstance(body, dict) or not body:
        return value
    return {**body, sorted(body)[pick % len(body)]: value}


def asking(operation: Any, url: str, count: list[int]) -> Callable[[], None]:
    """Return what sends generated requests to an operation, right ones and spoiled ones, and checks the answers."""

    def send(case: Any) -> None:
        answer = case.call(base_url=url)
        case.validate_response(answer, checks=CHECKS)
        count[0] += 1
        if answer.status_code >= 400 and not operation.path.startswith("/upstream/"):
            form = "AnthropicError" if operation.path.startswith("/v1/messages") else "Error"
            validate_error(form, answer.json())

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), value=VALUES, pick=st.integers(0, 9))
    def ask(case: Any, value: object, pick: int) -> None:
        send(case)
        if case.media_type == "application/json":
            case.body = spoiled(case.body, value, pick)
            send(case)

    return ask


def fuzz(schema: JSON, url: str) -> int:
    """Ask every operation of the document; return the number of requests."""
    count = [0]
    for found in schemathesis.openapi.from_dict(schema).get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]  # an error in the document is raised here
        asking(operation, url, count)()
    return count[0]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[AsyncStore]:
    """Open a ledger for a while."""
    store = await AsyncStore.open(path)
    try:
        yield store
    finally:
        await store.close()


def everything(r: Rig) -> None:
    """Publish one model that answers and one name for it; documents are the real ones."""
    limits = RequestLimits(queue=QueueLimits(timeout=0.2))
    r.publish(snapshot(ModelSpec("chat", "d"), aliases={"gpt": "chat"}, limits=limits, ready=("chat",)))


@pytest.mark.anyio
async def test_generated_requests_never_break_it(tmp_path: Path) -> None:
    async with rig(views=standard_views()) as r, opened(filled(tmp_path / DATABASE)) as store:
        everything(r)
        r.board.ask = store.ask
        r.open(r.engine())
        r.board.end()  # a stream says all it has, and ends
        asked = await anyio.to_thread.run_sync(partial(fuzz, narrowed(), f"http://127.0.0.1:{r.port}"))
        await r.idle()
        assert asked > 100
