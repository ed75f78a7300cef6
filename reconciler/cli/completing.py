"""Names for a shell that completes a command line: quick, and silent whatever goes wrong."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

#: Seconds a running manager gets to answer: somebody waits with a finger on the key.
_SECONDS: Final = 0.5


def models(context: "CompletionContext") -> dict[str, str]:
    """Return names and aliases of models with a word about each: of the running manager, or else of `manifests/`."""
    del context
    found = _of_loop()
    return _of_files(Path("manifests")) if found is None else found


def _of_loop() -> dict[str, str] | None:
    """Return what the running manager serves; None = none runs, or it does not answer in time."""
    from reconciler.cli.client import LoopClient, running_url
    from reconciler.cli.output import CliError
    from reconciler.store.paths import state_dir

    try:
        url = running_url(state_dir(None, create=False))
        status = LoopClient(url, timeout=_SECONDS).call("GET", "/api/v1/status") if url is not None else None
    except (CliError, OSError):
        return None
    return None if status is None else _names(status)


def _names(status: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for model in status["models"]:
        found[model["name"]] = str(model["state"])
        found |= dict.fromkeys(model["aliases"], f"{model['name']}, {model['state']}")
    return found


def _of_files(path: Path) -> dict[str, str]:
    """Return the models that a manifest names, whether or not it is valid."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    found: dict[str, str] = {}
    for name in sorted(os.listdir(path)) if path.is_dir() else ():
        if not name.endswith((".yaml", ".yml")) or name.startswith("."):
            continue
        try:
            said = YAML(typ="safe").load(path / name)
        except (OSError, YAMLError, ValueError):
            continue
        models = said.get("models") if isinstance(said, dict) else None
        for model in models if isinstance(models, dict) else ():
            found[str(model)] = f"in {name}"
    return found
