"""`reconcile measure MODEL [PATH]`: load a model, watch what it takes, and say how far off the estimate was."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.measure_loop import by_loop
from reconciler.cli.measure_progress import telling
from reconciler.cli.measure_result import check_editable, document, finished
from reconciler.cli.output import FAILURE, OK, CliError, colour, say, say_json

if TYPE_CHECKING:
    from reconciler.manifest.applied import Applied
    from reconciler.render.measure_shapes import MeasureDocument


class _StoppedError(CliError):
    """A signal ended the measurement."""

    prefix = ""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.code = 128 + number


def measure(
    model: options.Model,
    path: Annotated[
        Path | None,
        Parameter(help="Manifest: a YAML file or a directory [default: the running loop's, else manifests]."),
    ] = None,
    /,
    *,
    write: Annotated[
        bool,
        Parameter(negative=(), show_default=False, help="Write the suggested size into the manifest."),
    ] = False,
    seconds: Annotated[
        float,
        Parameter(metavar="N", show_default="{:g}".format, help="Seconds to watch it once it is ready."),
    ] = 10.0,
    timeout: options.Timeout = 600.0,
    json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Load a model and measure what it really takes.

    Estimate and measurement are shown side by side. The running loop is asked to load it, and to unload it again if
    it was not loaded before; without a loop it is loaded for the measurement and ended. Meanwhile two requests are
    sent, so that buffers are in use. With --write, memory.steady (and memory.peak, if loading takes more) become the
    measured size, or what the engine says it set up if that is more, and a fifth; no other line of the manifest
    changes, and a value that models share is refused.
    """
    from reconciler.cli.client import LoopClient, awaited_url
    from reconciler.render.measure_document import measure_json
    from reconciler.render.measure_text import measure_text
    from reconciler.store.paths import state_dir as resolve

    options.require_positive(seconds, "--seconds")
    options.require_positive(timeout, "--timeout")
    directory = resolve(state_dir, create=False)
    url = awaited_url(directory)
    if url is not None:
        signal.signal(signal.SIGTERM, _stop)  # like Ctrl-C: what was loaded for this is unloaded again
        made = by_loop(LoopClient(url), model, path, seconds, timeout, write=write)
    else:
        made = _by_ourselves(model, path, directory, seconds, write=write)
    result = measure_json(made)
    if json:
        say_json(result)
    else:
        say(measure_text(result, colour=colour()))
    return OK if made.suggestion.steady is not None else FAILURE


def _stop(number: int, _frame: object) -> None:
    raise _StoppedError(f"ended by {signal.Signals(number).name}", number)


def _by_ourselves(
    name: str, path: Path | None, directory: Path, seconds: float, *, write: bool
) -> "MeasureDocument":
    from reconciler import telemetry
    from reconciler.cli.manifests import read_manifest
    from reconciler.cli.run import DEFAULT_PATH
    from reconciler.host import StateLocked, StateUnwritable
    from reconciler.measure import MeasureError, measure_once
    from reconciler.measure.own import InterruptedMeasureError
    from reconciler.store import StoreError
    from reconciler.store.paths import state_dir

    applied = read_manifest(path or DEFAULT_PATH, None)
    model = _model_named(applied, name)
    if write:
        check_editable(applied, model)
    telemetry.configure(level="warning")
    try:
        taken = measure_once(applied, model, state_dir(directory), seconds, telling(model))
    except InterruptedMeasureError as error:
        raise _StoppedError(str(error), error.number) from error
    except (MeasureError, StateLocked, StateUnwritable, StoreError) as error:
        raise CliError(str(error)) from error
    spec = next(s for s in applied.manifest.models if s.name == model)
    entry = next((e for e in taken.world.ledger if (e.model, e.digest) == (model, spec.digest)), None)
    took = entry.load_seconds if entry is not None else None
    made = document(model, taken.measured, taken.world, seconds, took, taken.problems, spec.steady)
    return finished(made, applied if write else None)


def _model_named(applied: "Applied", name: str) -> str:
    from reconciler.cli.names import find_model

    aliases = {
        model: [alias for alias, target in sorted(applied.routes.items()) if target == model != alias]
        for model in applied.launches
    }
    named = {
        "models": [{"name": model, "aliases": also} for model, also in sorted(aliases.items())],
        "virtual": [{"name": name, "models": v.models} for name, v in sorted(applied.virtual.items())],
    }
    found: str = find_model(named, name)["name"]
    return found
