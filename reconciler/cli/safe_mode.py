"""Whether the loop of a state directory loads only pinned models, or would if one began now."""

from pathlib import Path


def unsafe(directory: Path) -> str:
    """Return why, as a sentence; "" = it loads all, or its ledger cannot be read, which others tell. Blocks."""
    import sqlite3

    from reconciler.boot import boot_id
    from reconciler.core.safe_mode import why
    from reconciler.store import NewerSchemaError, StoreError, peek
    from reconciler.store.paths import DATABASE

    try:
        with peek(directory / DATABASE) as store:
            return why(store.runs(), boot_id())
    except (StoreError, NewerSchemaError, sqlite3.Error, OSError):
        return ""
