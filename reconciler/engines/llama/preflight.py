"""Whether a llama.cpp server can start, and what it will hold: from files, before anybody makes room for it."""

from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight, Reason
from reconciler.engines import programs
from reconciler.engines.llama import build as llama_build
from reconciler.engines.llama import estimate as llama_estimate
from reconciler.engines.llama import notes as llama_notes
from reconciler.engines.llama import problems as llama_problems
from reconciler.engines.llama import server as llama_server
from reconciler.engines.llama.args import RefusedError, SettingsError, read_settings
from reconciler.engines.llama.flags import FlagError, verify
from reconciler.memory.gguf import Weights, WeightsError, find_weights

_NO_SERVER: Final = (
    "there is no llama.cpp server: install one of `pip install 'reconciler[llama]'` (embedded) "
    "or llama.cpp's `llama-server` on PATH, or name its path as `command:`"
)


def _hint(missing: str, instead: str = "") -> str:
    """Return what is missing for a size, and what to write; one sentence."""
    return f"{missing}: give {f'{instead}, or ' if instead else ''}memory.steady"


def problem(spec: LaunchSpec) -> str | None:
    """Return why there is nothing to start, or None. Placeholders are filled in already. Reads the file system."""
    if not Path(spec.cwd).is_dir():
        return f"the working directory {spec.cwd} does not exist"
    server = llama_server.find(spec)
    if server is None:
        return programs.why_not(spec, spec.command[0]) if spec.command else _NO_SERVER
    if server.embedded:
        try:
            verify(spec.args)
        except FlagError as error:
            return f"the embedded llama.cpp server does not take these args: {error}"
    return None


def sized(spec: LaunchSpec) -> Preflight:
    """Return what files and settings say of the size, or why they cannot be used. Reads files."""
    if spec.weights is None:
        return Preflight(spec.model, Reason.NOT_STARTABLE, "no weights are given")
    try:
        weights = find_weights(Path(spec.weights))
    except WeightsError as error:
        return Preflight(spec.model, Reason.NOT_STARTABLE, str(error))
    return _sized(spec, weights)


def _sized(spec: LaunchSpec, weights: Weights) -> Preflight:
    server = llama_server.find(spec)
    embedded = server is not None and server.embedded
    build = llama_build.build(spec, server.argv if server else (), embedded=embedded)
    try:
        settings = read_settings(spec, spec.args, embedded=embedded)
        if why := llama_problems.why_not(spec, settings, weights, embedded=embedded):
            return Preflight(spec.model, Reason.NOT_STARTABLE, why, build=build)
        size = llama_estimate.size(spec, settings, weights, llama_build.place(spec, settings, new=embedded))
        notes = tuple(llama_notes.notes(spec, settings, weights.header, server))
    except (RefusedError, WeightsError) as error:
        return Preflight(spec.model, Reason.NOT_STARTABLE, str(error), build=build)
    except SettingsError as error:
        return Preflight(spec.model, message=_hint(str(error)), build=build)
    return Preflight(
        spec.model,
        message=_hint(size.missing, size.instead) if size.missing else "",
        steady=size.estimate.steady,
        peak=size.estimate.peak,
        parts=size.estimate,
        files=size.files,
        context_tokens=settings.tokens,
        build=build,
        notes=notes,
        context_step=size.context_step,
        context_step_bytes=size.context_step_bytes,
    )
