"""`reconcile --version`: what this program is, and what it runs on.

Cheap: no engine is imported, nothing is started.
"""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import reconciler
from reconciler.cli.output import OK, UsageError, say, say_json
from reconciler.render.plan_document import as_json
from reconciler.render.version_shapes import VersionDocument, VersionedDocument

#: Engine -> the Python distribution that brings its server.
_DISTRIBUTIONS: Final = {
    "faster-whisper": "faster-whisper-server",
    "infinity": "infinity-emb",
    "llama.cpp": "xllamacpp",
    "mlx": "mlx-lm",
    "mlx-vlm": "mlx-vlm",
    "sglang": "sglang",
    "transformers": "transformers",
    "vllm": "vllm",
}
#: Engine -> its program.
_PROGRAMS: Final = {
    "llama.cpp": "llama-server",
    "ollama": "ollama",
    "sd.cpp": "sd-server",
    "tei": "text-embeddings-router",
    "whisper.cpp": "whisper-server",
}
#: Written by the build (hatch_build.py), since an installed package has no repository.
_BUILT_FROM: Final = "built_from.txt"


def show_version(words: Sequence[str]) -> int:
    """Print it; `words` follow `--version`. Raises UsageError for anything but `--json`."""
    if set(words) - {"--json"}:
        raise UsageError(f"--version takes nothing but --json, not {' '.join(words)}")
    document = as_json(facts())
    if words:
        say_json(document)
    else:
        say(_text(document))
    return OK


def facts() -> VersionDocument:
    """Return what is known of this program. Reads a few files."""
    package = Path(reconciler.__file__).parent
    return VersionDocument(
        version=reconciler.__version__,
        commit=_commit(package),
        location=str(package),
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        executable=sys.executable,
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        engines=tuple(sorted(_engines(), key=lambda e: (e.name, e.path or ""))),
        packages=tuple(_packages()),
    )


def _text(document: dict[str, Any]) -> str:
    engines = [_named(e["name"], e["version"] or e["path"]) for e in document["engines"]]
    packages = [_named(p["name"], p["version"]) for p in document["packages"]]
    commit = document["commit"]
    return "\n".join(
        (
            f"reconcile {document['version']}{f' ({commit})' if commit else ''}",
            f"location  {document['location']}",
            f"python    {document['python']} {document['implementation']}  {document['executable']}",
            f"platform  {document['platform']}",
            f"engines   {', '.join(engines) or 'none here'}",
            f"packages  {', '.join(packages)}",
        )
    )


def _named(name: str, what: str | None) -> str:
    return f"{name} {what or '(not installed)'}"


def _commit(package: Path) -> str | None:
    """Return the short commit of the checkout the package lies in, or it was built from; None = not known."""
    try:
        return _checked_out(package.parent / ".git") or (package / _BUILT_FROM).read_text("ascii").strip()
    except (OSError, ValueError):
        return None


def _checked_out(entry: Path) -> str | None:
    """Return the commit that a repository's HEAD names, read from its files: git is not started for it."""
    if not entry.exists():
        return None
    home = entry
    if entry.is_file():  # a linked work tree
        home = (entry.parent / entry.read_text("utf-8").partition("gitdir:")[2].strip()).resolve()
    head = (home / "HEAD").read_text("utf-8").strip()
    name = head.partition("ref: ")[2]
    if not name:
        return head[:7]
    common = home / (home / "commondir").read_text("utf-8").strip() if (home / "commondir").exists() else home
    if (common / name).is_file():
        return (common / name).read_text("ascii").strip()[:7]
    packed = (common / "packed-refs").read_text("utf-8").splitlines()
    return next((line[:7] for line in packed if line.endswith(f" {name}")), None)


def _engines() -> Iterator[VersionedDocument]:
    for name, distribution in _DISTRIBUTIONS.items():
        if (version := _version(distribution)) is not None:
            yield VersionedDocument(name, version, None)
    for name, program in _PROGRAMS.items():
        if (path := shutil.which(program)) is not None:
            yield VersionedDocument(name, None, os.fspath(path))


def _packages() -> Iterator[VersionedDocument]:
    """Yield what the installed distribution says it needs, extras left out; nothing where it is not installed."""
    try:
        required = metadata.requires("reconciler") or []
    except metadata.PackageNotFoundError:
        return
    names = {_bare(line) for line in required if "extra ==" not in line}
    for name in sorted(names):
        yield VersionedDocument(name, _version(name), None)


def _bare(requirement: str) -> str:
    """Return the name that a requirement begins with.

    >>> _bare("uvicorn<0.55,>=0.54")
    'uvicorn'
    """
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "._-")), len(requirement))
    return requirement[:end]


@cache
def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
