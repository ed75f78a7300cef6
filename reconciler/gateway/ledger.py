"""Questions to the ledger, answered in a worker thread; one that cannot be read is a 503."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import Response

from reconciler.board import Board
from reconciler.gateway.errors import ApiError
from reconciler.store.errors import StoreError

if TYPE_CHECKING:
    from reconciler.render.document import Document
    from reconciler.store import Store

T = TypeVar("T")


async def ask(board: Board, question: "Callable[[Store], T]") -> T:
    """Return what the ledger says. Raises `ApiError`."""
    if board.ask is None:
        raise ApiError("history_unavailable", "there is no ledger to read")
    try:
        return await board.ask(question)
    except StoreError as error:
        raise ApiError("history_unavailable", str(error), retry_after=5) from error


async def answer(board: Board, question: "Callable[[Store], Document | dict[str, Any]]") -> Response:
    """Answer with a document; it is written out in the worker thread, too: it may be long. Raises `ApiError`."""

    def written(store: "Store") -> bytes:
        from reconciler.render.plan_document import as_json

        made = question(store)
        shown = made if isinstance(made, dict) else as_json(made)
        return json.dumps(shown, separators=(",", ":"), allow_nan=False).encode()

    return Response(await ask(board, written), media_type="application/json")


async def write_down(board: Board) -> None:
    """Have what came of the use in the last seconds in the ledger, which is written in batches."""
    if board.write_down is not None:
        await board.write_down()
