"""Which llama.cpp server a launch gets, what version it is as far as files tell, and which files it reads."""

import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines import programs
from reconciler.engines.llama.args import SettingsError, read_settings
from reconciler.engines.placeholders import filled
from reconciler.memory.gguf import WeightsError, find_weights

_LAUNCHER: Final = "reconciler.engines.llama.launcher"
_NAME: Final = "llama-server"
#: Folders that are named by those who built what is in them: Homebrew's, and Nix's.
_CELLAR: Final = re.compile(r"/Cellar/llama\.cpp/([^/]+)/")
_STORE: Final = re.compile(r"/nix/store/[a-z0-9]{32}-llama-cpp(?:-[a-z]+)*-([0-9][^/]*)/")
_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
_DIST: Final = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.dist-info")


@dataclass(frozen=True, slots=True)
class Program:
    """What is run: the first words of the command line, and whether it is our embedded server."""

    argv: tuple[str, ...]
    embedded: bool


def find(spec: LaunchSpec) -> Program | None:
    """Return the server that `spec` gets, or None. Reads the file system."""
    if spec.command:
        path = programs.resolve(spec, spec.command[0])
        return Program((path, *spec.command[1:]), embedded=False) if path else None
    if path := programs.resolve(spec, _NAME):
        return Program((path,), embedded=False)
    if importlib.util.find_spec("xllamacpp") is not None:
        # -P: the model's working directory must not be able to shadow a module.
        return Program((sys.executable, "-P", "-m", _LAUNCHER), embedded=True)
    return None


@cache
def embedded_version() -> str:
    """Return the version of the embedded server: year, month, and llama.cpp's build."""
    return metadata.version("xllamacpp")


def version(spec: LaunchSpec, program: Program) -> str | None:
    """Return the version of a server as its package tells it, or None. Reads folders; a file's name tells nothing."""
    if program.embedded:
        return embedded_version()
    found = next(
        (path for word in program.argv if (path := programs.resolve(spec, word)) and _NAME in path), None
    )
    return None if found is None else _packaged(Path(found).resolve())


def _packaged(path: Path) -> str | None:
    for pattern in (_CELLAR, _STORE):
        if found := pattern.search(str(path)):
            return found[1]
    for folder in path.parents:
        if folder.parent.name in _PACKAGES:
            return _distributed(folder.parent, folder.name)
    return None


def _distributed(packages: Path, package: str) -> str | None:
    """Return the version of the distribution that brought a folder of the same name."""
    wanted = package.replace("-", "_").lower()
    for path in sorted(packages.glob("*.dist-info")):
        found = _DIST.fullmatch(path.name)
        if found and found["name"].replace("-", "_").lower() == wanted:
            return found["version"]
    return None


def weights_of(spec: LaunchSpec) -> tuple[Path, ...]:
    """Return all files a launch reads, sorted: parts of the weights, projector, adapters, draft model. Reads files.

    One that is missing or damaged is named as it is: whether it can be used is told by preflight.
    """
    spec = filled(spec, spec.port or 0)
    program = find(spec)
    named = [spec.weights, spec.projector, spec.draft, *(adapter.path for adapter in spec.adapters)]
    try:
        settings = read_settings(spec, spec.args, embedded=program is not None and program.embedded)
    except SettingsError:
        pass
    else:
        named += [settings.projector, settings.draft, *settings.loras, settings.template]
    paths = {Path(spec.cwd) / name for name in named if name}
    return tuple(sorted({part for path in paths for part in _parts(path)}))


def _parts(path: Path) -> Sequence[Path]:
    try:
        return find_weights(path).files
    except WeightsError:
        return (path,)
