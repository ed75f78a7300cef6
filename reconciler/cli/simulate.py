"""`reconcile simulate TRACE`: what a manifest would have made of requests that came, without loading a model."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import FAILURE, OK, CliError, colour, note, say, say_json

if TYPE_CHECKING:
    from reconciler.cli.simulate_progress import Bar
    from reconciler.cli.simulate_runs import Case
    from reconciler.render.simulate_shapes import UnknownDocument
    from reconciler.simulate.report import Run
    from reconciler.simulate.trace import Trace

#: Columns of the text: never fewer, and on a terminal no more than are pleasant to read.
_NARROWEST: Final = 60
_WIDEST: Final = 120


def simulate(
    trace: Annotated[
        str,
        Parameter(
            help="File of requests (CSV, JSONL, llama-swap's activity), or history: this machine's own."
        ),
    ],
    /,
    *,
    manifest: Annotated[
        tuple[Path, ...],
        Parameter(
            name="--manifest",
            metavar="PATH",
            negative=(),
            show_default=False,
            help="Manifest to simulate; again for more of them, side by side [default: manifests].",
        ),
    ] = (),
    policy: Annotated[
        tuple[Literal["cost", "lru"], ...],
        Parameter(
            name="--policy",
            metavar="POLICY",
            negative=(),
            show_default=False,
            help="Who gives way; again to compare [default: the manifest's].",
        ),
    ] = (),
    prewarm: Annotated[
        tuple[Literal["off", "free", "full"], ...],
        Parameter(
            name="--prewarm",
            metavar="WHEN",
            negative=(),
            show_default=False,
            help="What is loaded in advance; again to compare [default: the manifest's].",
        ),
    ] = (),
    machine: Annotated[
        Path | None,
        Parameter(
            name="--machine", metavar="FILE", help="Simulate the machine this file describes, not this one."
        ),
    ] = None,
    since: Annotated[
        str | None,
        Parameter(
            name="--from",
            metavar="TIME",
            help="Leave out what came before: 8h, 1d12h, counted from the midnight before the first request.",
        ),
    ] = None,
    until: Annotated[
        str | None, Parameter(name="--to", metavar="TIME", help="Leave out what came from then on.")
    ] = None,
    clients: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Show how each client waited, too.")
    ] = False,
    picture: Annotated[
        Path | None,
        Parameter(name="--picture", metavar="FILE", help="Draw all runs into this file, as SVG."),
    ] = None,
    actions: Annotated[
        Path | None,
        Parameter(
            name="--actions",
            metavar="FILE",
            help="Write every load and eviction into this file, a line of JSON each.",
        ),
    ] = None,
    json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Show how requests would have waited, without loading a model.

    The trace is replayed on a virtual clock by the code that the loop runs, with the same queues and gates, one load or
    eviction at a time, and how long each takes: how long people would have waited, and what for. With several
    manifests, policies or ways of loading in advance every combination is run and shown beside the first.
    """
    from reconciler.cli import simulate_files, simulate_runs, simulate_trace
    from reconciler.cli.simulate_progress import Bar
    from reconciler.core.types import Policy, Prewarm
    from reconciler.render.simulate_text import simulate_json, simulate_text, unknown_lines
    from reconciler.simulate.report import report
    from reconciler.store.paths import state_dir as resolve

    simulate_files.check(picture, actions)
    here = simulate_runs.known(resolve(state_dir, create=False))
    with Bar() as bar:
        requests = simulate_trace.read(trace, here.past, bar.about(f"reading {trace}"))
        requests = simulate_trace.between(requests, since, until)
        bases = [simulate_runs.base(path, machine, here) for path in dict.fromkeys(manifest or _default())]
        told = simulate_trace.document(requests, trace, _unknown(requests, bases))
        for line in [*requests.notes, *unknown_lines(told.unknown)]:
            note(f"note: {line}")
        cases = simulate_runs.variants(bases, [Policy(p) for p in policy], [Prewarm(p) for p in prewarm])
        runs = _run(cases, requests, bar)
    failed = simulate_files.write(picture, actions, [run.result for run in runs])
    document = simulate_json(report(told, str(machine) if machine else None, runs, clients=clients))
    if json:
        say_json(document)
    else:
        say(simulate_text(document, colour=colour(), width=_width()))
    if failed:
        # What a long simulation has found is not lost for a file that could not be written.
        raise CliError(failed)
    return FAILURE if any(run["not_loaded"] for run in document["runs"]) else OK


def _default() -> tuple[Path, ...]:
    from reconciler.cli.run import DEFAULT_PATH

    if not DEFAULT_PATH.exists():
        raise CliError(
            f"there is no directory {DEFAULT_PATH} here: say which manifest to simulate, with --manifest PATH"
        )
    return (DEFAULT_PATH,)


def _unknown(trace: "Trace", bases: "Sequence[Case]") -> "tuple[UnknownDocument, ...]":
    """Return the names that no manifest has; those that only some lack are said, with the manifest.

    Raises CliError with every manifest that has none of the names.
    """
    from reconciler.cli import simulate_trace
    from reconciler.render.paint import one_line

    asked = simulate_trace.counts(trace)
    missing, strangers = [], []
    for case in bases:
        names = [spec.name for spec in case.layout.manifest.models]
        try:
            missing.append(simulate_trace.unknown_in(asked, case.manifest, names, case.layout.routes))
        except CliError as error:
            strangers.append(str(error))
    if strangers:
        raise CliError("\n       ".join(strangers))
    everywhere = set.intersection(*({u.name for u in found} for found in missing))
    for case, found in zip(bases, missing, strict=True):
        if some := [one_line(u.name) for u in found if u.name not in everywhere]:
            note(f"note: {case.manifest} has no {', '.join(some)}: requests for them are refused there")
    return tuple(u for u in missing[0] if u.name in everywhere)


def _run(cases: "Sequence[Case]", trace: "Trace", bar: "Bar") -> "list[Run]":
    from reconciler.simulate.engine import run
    from reconciler.simulate.report import Run

    return [
        Run(case.manifest, case.layout, run(case.layout, trace, progress=bar.about(case.layout.name)))
        for case in cases
    ]


def _width() -> int:
    from reconciler.render.simulate_text import WIDTH

    if not sys.stdout.isatty():
        return WIDTH
    return min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
