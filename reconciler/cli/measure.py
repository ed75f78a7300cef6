"""`reconcile measure MODEL [PATH]`: load a model, watch what it takes, and say how far off the estimate was."""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import FAILURE, OK, CliError, colour, note, say, say_json

if TYPE_CHECKING:
    from reconciler.cli.client import LoopClient
    from reconciler.core.types import Preflight, World
    from reconciler.manifest.applied import Applied
    from reconciler.manifest.edit import Edit
    from reconciler.measure import Measured
    from reconciler.render.measure_shapes import MeasureDocument, SuggestionDocument

_POLL: Final = 0.25


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
        Parameter(
            negative=(), show_default=False, help="Write the measured size and a fifth into the manifest."
        ),
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
    measured size and a fifth; no other line of the manifest changes, and a value that models share is refused.
    """
    from reconciler.cli.client import LoopClient, running_url
    from reconciler.render.measure_document import measure_json
    from reconciler.render.measure_text import measure_text
    from reconciler.store.paths import state_dir as resolve

    options.require_positive(seconds, "--seconds")
    options.require_positive(timeout, "--timeout")
    directory = resolve(state_dir, create=False)
    url = running_url(directory)
    if url is not None:
        signal.signal(signal.SIGTERM, _stop)  # like Ctrl-C: what was loaded for this is unloaded again
        made = _by_loop(LoopClient(url), model, path, seconds, timeout, write=write)
    else:
        made = _by_ourselves(model, path, directory, seconds, write=write)
    document = measure_json(made)
    if json:
        say_json(document)
    else:
        say(measure_text(document, colour=colour()))
    return OK if made.suggestion.steady is not None else FAILURE


def _stop(number: int, _frame: object) -> None:
    raise _StoppedError(f"ended by {signal.Signals(number).name}", number)


# -- with a running loop --------------------------------------------------------------------------------------------


def _by_loop(
    loop: "LoopClient", name: str, path: Path | None, seconds: float, timeout: float, *, write: bool
) -> "MeasureDocument":
    from reconciler.cli.ask import carry_out
    from reconciler.cli.names import find_model
    from reconciler.core.launch import Role
    from reconciler.host.ask import run_command
    from reconciler.host.identity import Process, identify
    from reconciler.measure import Watch, ask_model
    from reconciler.memory.machine import open_machine
    from reconciler.wire import world_from_json

    status = loop.status()
    before = find_model(status, name)
    name = before["name"]
    applied = _manifest_of(status, path) if write else None
    if applied is not None:
        _check_editable(applied, name)
    was_loaded = before["pid"] is not None

    def find() -> Process | None:
        pid = find_model(loop.status(), name)["pid"]
        return identify(pid) if pid is not None else None

    try:
        with Watch(open_machine(run_command), find) as watch:
            if before["state"] != "ready":
                carry_out(loop, name, "load", timeout=timeout)
            watch.steady()
            deadline = time.monotonic() + seconds
            problems = ask_model(loop.url, name, Role(before["role"] or "chat"), _key_header())
            _count_down(name, deadline, lambda: watch.holds)
        now = find_model(loop.status(), name)
        if now["state"] != "ready":
            problems = (*problems, f"it is {now['state']} at the end: somebody else unloaded it, or it ended")
        world = world_from_json(loop.call("GET", "/api/v1/world")).world
    finally:
        if not was_loaded:
            _restore(loop, name, before["residency"], timeout)
    took = None if was_loaded else now["load_seconds"]
    made = _document(name, watch.result, world, seconds, took, problems, _stated_of(loop, name))
    made = replace(made, by="loop")
    if was_loaded:
        made = _with_note(made, "it was loaded before: the peak of its load was not watched")
    return _finished(made, applied)


def _restore(loop: "LoopClient", name: str, residency: str | None, timeout: float) -> None:
    """Unload what was not loaded before. What the manifest wants loaded stays: the loop decides about it."""
    from reconciler.cli.ask import carry_out

    if residency in ("on_demand", "transient"):
        carry_out(loop, name, "evict", timeout=timeout)


def _key_header() -> dict[str, str]:
    from reconciler.cli.client import KEY_VARIABLE

    key = os.environ.get(KEY_VARIABLE)
    return {"Authorization": f"Bearer {key}"} if key else {}


def _stated_of(loop: "LoopClient", name: str) -> int | None:
    models = loop.call("GET", "/api/v1/budget")["models"]
    return next((m["stated"] for m in models if m["name"] == name), None)


def _manifest_of(status: dict[str, Any], path: Path | None) -> "Applied":
    """Return the manifest to write into: the one the loop has, and no other."""
    from reconciler.cli.manifests import read_manifest

    applied = read_manifest(path or Path(status["manifest"]["path"]), None)
    if applied.digest != status["manifest"]["digest"]:
        raise CliError(
            f"{applied.source.path} is not what the loop has in force ({status['manifest']['path']}): "
            "name that manifest, or wait until its newest text is in force"
        )
    return applied


# -- without one ----------------------------------------------------------------------------------------------------


def _by_ourselves(
    name: str, path: Path | None, directory: Path, seconds: float, *, write: bool
) -> "MeasureDocument":
    from reconciler import telemetry
    from reconciler.cli.manifests import read_manifest
    from reconciler.cli.run import DEFAULT_PATH
    from reconciler.host import StateLocked
    from reconciler.measure import MeasureError, measure_once
    from reconciler.measure.own import InterruptedMeasureError
    from reconciler.store import StoreError
    from reconciler.store.paths import state_dir

    applied = read_manifest(path or DEFAULT_PATH, None)
    model = _model_named(applied, name)
    if write:
        _check_editable(applied, model)
    telemetry.configure(level="warning")
    try:
        taken = measure_once(applied, model, state_dir(directory), seconds, _telling(model))
    except InterruptedMeasureError as error:
        raise _StoppedError(str(error), error.number) from error
    except (MeasureError, StateLocked, StoreError) as error:
        raise CliError(str(error)) from error
    spec = next(s for s in applied.manifest.models if s.name == model)
    entry = next((e for e in taken.world.ledger if (e.model, e.digest) == (model, spec.digest)), None)
    took = entry.load_seconds if entry is not None else None
    made = _document(model, taken.measured, taken.world, seconds, took, taken.problems, spec.steady)
    return _finished(made, applied if write else None)


def _model_named(applied: "Applied", name: str) -> str:
    from reconciler.cli.names import find_model

    aliases = {
        model: [alias for alias, target in sorted(applied.routes.items()) if target == model != alias]
        for model in applied.launches
    }
    named = {"models": [{"name": model, "aliases": also} for model, also in sorted(aliases.items())]}
    found: str = find_model(named, name)["name"]
    return found


# -- both -----------------------------------------------------------------------------------------------------------


def _document(
    name: str,
    measured: "Measured",
    world: "World",
    seconds: float,
    load_seconds: float | None,
    problems: tuple[str, ...],
    stated: int | None,
) -> "MeasureDocument":
    from reconciler.render.measure_document import compare, suggest
    from reconciler.render.measure_shapes import MeasureDocument

    preflight: Preflight | None = next((p for p in world.observation.preflights if p.model == name), None)
    digest = next((i.digest for i in world.observation.instances if i.model == name), "")
    entry = next((e for e in world.ledger if (e.model, e.digest) == (name, digest)), None)
    return MeasureDocument(
        model=name,
        by="own",
        seconds=seconds,
        load_seconds=load_seconds,
        comparisons=compare(
            preflight.parts if preflight is not None else None,
            entry.said if entry is not None else None,
            measured.steady,
            measured.peak,
        ),
        committed=measured.committed,
        warm=measured.warm,
        device=measured.device,
        fell=measured.fell,
        stated=stated,
        suggestion=suggest(measured.steady, measured.peak, None),
        written=None,
        notes=problems,
    )


def _with_note(made: "MeasureDocument", text: str) -> "MeasureDocument":
    return replace(made, notes=(*made.notes, text))


def _finished(made: "MeasureDocument", applied: "Applied | None") -> "MeasureDocument":
    """Return the document, its suggestion written into the manifest if one is given."""
    from reconciler.manifest.edit import EditError, plan_edit, write_edit
    from reconciler.render.measure_document import suggest
    from reconciler.render.measure_shapes import WrittenDocument

    if applied is None or made.suggestion.steady is None:
        return made
    spec = next(s for s in applied.manifest.models if s.name == made.model)
    sizes = {row.kind: row.measured for row in made.comparisons}
    suggestion = suggest(sizes["steady"], sizes["peak"], spec.peak)
    try:
        edit = plan_edit(Path(applied.source.path), made.model, _values(suggestion), os.environ)
        if edit.after != edit.before:
            write_edit(edit)
    except EditError as error:
        raise CliError(str(error)) from error
    return replace(made, suggestion=suggestion, written=WrittenDocument(str(edit.path), edit.diff))


def _values(suggestion: "SuggestionDocument") -> dict[str, str]:
    given = {"steady": suggestion.steady, "peak": suggestion.peak}
    return {key: value for key, value in given.items() if value is not None}


def _check_editable(applied: "Applied", model: str) -> "Edit":
    """Raise CliError if the size could not be written: better before a model is loaded than after."""
    from reconciler.manifest.edit import EditError, find_edit

    try:
        return find_edit(Path(applied.source.path), model, {"steady": "1GiB"})
    except EditError as error:
        raise CliError(str(error)) from error


def _telling(model: str) -> Callable[[str, int | None], None]:
    """Return what shows progress: each phase once, and on a terminal the seconds as well."""
    shown: list[str] = []

    def tell(phase: str, holds: int | None) -> None:
        word = phase.partition(",")[0]
        if sys.stderr.isatty():
            _show(f"{word} {model}{phase.removeprefix(word)}", holds, last=word == "ending")
        elif word not in shown:
            shown.append(word)
            note(f"{word} {model}")

    return tell


def _count_down(model: str, deadline: float, holds: Callable[[], int | None]) -> None:
    tell = _telling(model)
    try:
        while (left := deadline - time.monotonic()) > 0:
            tell(f"watching, {left:.0f} s left", holds())
            time.sleep(min(_POLL, left))
    finally:
        if sys.stderr.isatty():
            _show(f"watched {model}", holds(), last=True)


def _show(text: str, holds: int | None, *, last: bool) -> None:
    """Write over the line of progress on a terminal."""
    from reconciler.render.units import size

    held = f", {size(holds)} so far" if holds is not None else ""
    sys.stderr.write(f"\r\x1b[K{text}{held}" + ("\n" if last else ""))
    sys.stderr.flush()
