"""All that is known of one model as a document. Reading blocks."""

from typing import TYPE_CHECKING, Final

from reconciler.render.history_document import arrivals_document, eviction_document, load_document
from reconciler.render.history_records import Records, read_records
from reconciler.render.model_shapes import LaunchDocument, ModelPageDocument
from reconciler.render.status_document import model_document

if TYPE_CHECKING:
    from reconciler.board import Snapshot
    from reconciler.store import Store

#: Records of each kind that are shown.
NEWEST: Final = 50
#: Seconds the use reaches back.
USE_SECONDS: Final = 7 * 86400.0


def model_page(
    snapshot: "Snapshot",
    model: str,
    now: float,
    launch: LaunchDocument | None,
    store: "Store",
    wall: float,
) -> ModelPageDocument:
    """Return the document of `schemas/model.v1.json`; `now` is a reading of the snapshot's clock, `wall` epoch seconds.

    Raises KeyError for a model that nobody knows.
    """
    shown = model_document(snapshot, model, now)
    recent = read_records(store, wall - USE_SECONDS, model).get(model, Records())
    return ModelPageDocument(
        model=shown,
        verdict=shown.verdict,
        launch=launch,
        loads=tuple(map(load_document, store.loads(model, NEWEST, newest=True))),
        evictions=tuple(map(eviction_document, store.evictions(model, NEWEST, newest=True))),
        use=arrivals_document(recent),
    )
