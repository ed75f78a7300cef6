"""Why a load in flight does not go on, in words for people."""

from typing import Final

from reconciler.core.types import Load, ModelSpec

#: What it is until another reason is known.
NOT_WANTED: Final = "it is not wanted any more"
STOPPING: Final = "reconcile is stopping"
REMOVED: Final = "the manifest does not name it any more"
CHANGED: Final = "its settings were changed"


def over(action: Load, wanted: ModelSpec | None, *, stopping: bool) -> str:
    """Return why a load is not to go on, whatever it has come to, or ""; `wanted` is what the manifest says now."""
    if stopping:
        return STOPPING
    if wanted is None:
        return REMOVED
    return CHANGED if wanted.digest != action.digest else ""
