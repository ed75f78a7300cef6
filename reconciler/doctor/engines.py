"""Which engines are here, in which version, and which models could not be started."""

import contextlib
import importlib.metadata
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight, Residency
from reconciler.doctor.finding import Finding, cannot_tell, error, note, ok, warning
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter
from reconciler.manifest.applied import Applied
from reconciler.render.notes import note_lines

#: Seconds a program gets to say its version: one that loads GPU libraries takes a while.
VERSION_SECONDS: Final = 10.0
#: Engine -> the Python package and the program that may serve it.
_PACKAGES: Final = {"llama.cpp": "xllamacpp"}
_PROGRAMS: Final = {"llama.cpp": "llama-server"}

#: Returns what a program prints when asked for its version. Raises OSError, TimeoutError.
AskVersion = Callable[[str], str]


def ask_version(program: str) -> str:
    """Return the line in which `PROGRAM --version` names the version, else its first. Blocks for up to 10 s.

    Raises OSError, also (TimeoutError) when it takes longer.
    """
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # where llama-server says it
            timeout=VERSION_SECONDS,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired as late:
        raise TimeoutError(f"it did not answer within {VERSION_SECONDS:g} s") from late
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return next(
        (line for line in lines if "version" in line.lower()), lines[0] if lines else "it says nothing"
    )


def check_engines(applied: Applied | None, ask: AskVersion = ask_version) -> Iterator[Finding]:
    """Yield what serves each engine there is."""
    used = {spec.engine for spec in applied.launches.values()} if applied is not None else set()
    for name in registry.names():
        found = list(_servers(name, ask))
        yield from found
        if not found and name in _PACKAGES:
            there = f"neither the package {_PACKAGES[name]} nor the program {_PROGRAMS[name]} is here"
            how = "pip install 'reconciler[llama]', or put llama.cpp's llama-server on PATH"
            # A model may still name a program of its own: whether it can be started is looked at by itself.
            yield warning(name, there, how) if name in used else note(name, there, how)
        elif name == "command":
            yield ok(name, "starts what the manifest names" + ("" if name in used else "; no model uses it"))
        elif not found:
            launches = applied.launches.values() if applied is not None else ()
            yield from _found(name, [spec for spec in launches if spec.engine == name])


def _found(name: str, specs: list[LaunchSpec]) -> Iterator[Finding]:
    """Yield the programs that the models of an engine are served by, or where there are none what is found without."""
    engine = registry.get(name)
    models: dict[str | None, list[str]] = {}
    for spec in specs or [LaunchSpec(name, name)]:
        program = engine.program(spec)
        version = engine.version(spec) if program else None
        says = f"version {version}" if version else "it does not say its version"
        models.setdefault(f"{program[0]}: {says}" if program else None, []).append(spec.model)
    for text, names in sorted(models.items(), key=lambda item: item[0] or ""):
        if text is not None:
            yield ok(name, text + ("" if specs else "; no model uses it"))
        elif specs:
            how = engine.install if isinstance(engine, Adapter) else ""
            yield warning(name, f"its server is not here for {', '.join(sorted(names))}", how)
        else:
            yield note(name, "its server is not here; no model uses it")


def _servers(name: str, ask: AskVersion) -> Iterator[Finding]:
    if (package := _PACKAGES.get(name)) is not None:
        # Where it is missing, the program may be there instead.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield ok(name, f"{package} {importlib.metadata.version(package)}")
    if (program := _PROGRAMS.get(name)) is not None and (path := shutil.which(program)) is not None:
        try:
            yield ok(name, f"{path}: {ask(path)}")
        except OSError as problem:
            yield cannot_tell(name, f"{path} does not say its version: {problem}")


def check_models(applied: Applied, preflights: Mapping[str, Preflight]) -> Iterator[Finding]:
    """Yield the models that could not be started, or whose size nobody knows."""
    well = 0
    for spec in applied.manifest.models:
        found = preflights.get(spec.name)
        if found is not None and found.reason is not None:
            what, advice = (
                f"{spec.name} cannot be started: {found.message}",
                f"see: reconcile validate {applied.source.path}",
            )
        elif spec.steady is None and (found is None or found.steady is None):
            what = f"the size of {spec.name} is unknown"
            advice = (found.message if found is not None else "") or "give memory.steady"
        else:
            well += 1
            continue
        yield (error if spec.residency is Residency.PINNED else warning)("models", what, advice)
    for line in note_lines((name, found.notes) for name, found in sorted(preflights.items())):
        yield note("models", line)
    if well:
        yield ok("models", f"{well} of {len(applied.manifest.models)} could be started")
