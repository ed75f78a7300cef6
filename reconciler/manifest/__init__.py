"""The manifest: YAML files -> a validated document -> what the rest of the program uses.

Names are imported when they are first used: whoever only needs `Applied` pays for no parser.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconciler.manifest.applied import Applied as Applied
    from reconciler.manifest.diagnostics import Diagnostic as Diagnostic
    from reconciler.manifest.diagnostics import ManifestError as ManifestError
    from reconciler.manifest.load import load_manifest as load_manifest
    from reconciler.manifest.watch import ManifestWatcher as ManifestWatcher

_HOMES = {
    "Applied": "applied",
    "Diagnostic": "diagnostics",
    "ManifestError": "diagnostics",
    "ManifestWatcher": "watch",
    "load_manifest": "load",
}

__all__ = ["Applied", "Diagnostic", "ManifestError", "ManifestWatcher", "load_manifest"]


def __getattr__(name: str) -> Any:
    """Import a public name from the module it lives in."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
