"""What must survive a restart: launches, the ledger, events, what came of the use, in one SQLite file.

Names are imported when they are first used: most verbs of the command line only ask where the state directory is.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconciler.store.errors import StoreError
    from reconciler.store.ledger import EventRecord, Store
    from reconciler.store.paths import DATABASE, RUN_FILE, state_dir
    from reconciler.store.readonly import peek
    from reconciler.store.records import (
        BUCKET_SECONDS,
        ArrivalBucket,
        EvictionRecord,
        LaunchRecord,
        LoadRecord,
        RequestRecord,
        RunRecord,
    )
    from reconciler.store.schema import NewerSchemaError
    from reconciler.store.worker import AsyncStore

__all__ = [
    "BUCKET_SECONDS",
    "DATABASE",
    "RUN_FILE",
    "ArrivalBucket",
    "AsyncStore",
    "EventRecord",
    "EvictionRecord",
    "LaunchRecord",
    "LoadRecord",
    "NewerSchemaError",
    "RequestRecord",
    "RunRecord",
    "Store",
    "StoreError",
    "peek",
    "state_dir",
]

_HOMES = {
    "ArrivalBucket": "records",
    "AsyncStore": "worker",
    "BUCKET_SECONDS": "records",
    "DATABASE": "paths",
    "EventRecord": "ledger",
    "EvictionRecord": "records",
    "LaunchRecord": "records",
    "LoadRecord": "records",
    "NewerSchemaError": "schema",
    "RUN_FILE": "paths",
    "RequestRecord": "records",
    "RunRecord": "records",
    "Store": "ledger",
    "StoreError": "errors",
    "peek": "readonly",
    "state_dir": "paths",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
