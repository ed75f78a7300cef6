"""What must survive a restart: launches, the ledger, events, and the generation, in one SQLite file."""

from reconciler.store.boot import boot_id
from reconciler.store.ledger import EventRecord, Store
from reconciler.store.paths import DATABASE, RUN_FILE, state_dir
from reconciler.store.peek import peek
from reconciler.store.records import LaunchRecord
from reconciler.store.schema import NewerSchemaError
from reconciler.store.worker import AsyncStore

__all__ = [
    "DATABASE",
    "RUN_FILE",
    "AsyncStore",
    "EventRecord",
    "LaunchRecord",
    "NewerSchemaError",
    "Store",
    "boot_id",
    "peek",
    "state_dir",
]
