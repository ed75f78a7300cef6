"""`reconcile --dry-run`: what would be done, without a lock, a file or a process of our own."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.cli.client import LoopClient, NotRunningError, running_url
from reconciler.cli.manifests import read_manifest
from reconciler.cli.output import CHANGES, OK, CliError, colour, note, say, say_json
from reconciler.cli.safe_mode import unsafe
from reconciler.core.plan import plan
from reconciler.core.safe_mode import restrained
from reconciler.core.types import Preflight, World
from reconciler.manifest.applied import Applied
from reconciler.render.advice_document import hint_documents
from reconciler.render.budget_shapes import SeenBy
from reconciler.render.notes import note_lines
from reconciler.render.plan_document import plan_json
from reconciler.render.plan_text import plan_text
from reconciler.store.paths import DATABASE
from reconciler.store.paths import state_dir as resolve
from reconciler.wire import SeenWorld, WireError, world_from_json


def show_plan(
    path: Path,
    *,
    rev: str | None,
    state_dir: Path | None,
    json: bool,
    detailed_exitcode: bool,
    machine: Path | None = None,
) -> int:
    """Print the plan for the manifest at `path` and return the exit code. `machine` describes where it would run.

    Raises CliError when the manifest is refused or the world cannot be seen.
    """
    applied = read_manifest(path, rev)
    for warning in applied.warnings:
        note(f"warning: {warning}")
    seen = (
        look_at(applied, machine) if machine is not None else look(applied, resolve(state_dir, create=False))
    )
    for line in note_lines(((p.model, p.notes) for p in seen.world.observation.preflights), "models."):
        note(f"warning: {line}")
    made = plan(replace(applied.manifest, generation=seen.generation), seen.world, seen.at)
    advice = hint_documents(applied.manifest, seen.world, made, seen.at, waiting=True)
    if json:
        say_json(plan_json(made, applied.source, advice))
    else:
        described = seen.by == "description"
        say(plan_text(made, applied.source, colour=colour(), described=described, advice=advice))
    return CHANGES if detailed_exitcode and made.steps else OK


@dataclass(frozen=True, slots=True)
class Look:
    """The world as a manifest would be planned in it."""

    world: World
    #: The reading of the clock that belongs to it.
    at: float
    #: The generation the manifest has, or would get.
    generation: int
    #: A running loop saw it, or we looked for ourselves, or it is only described.
    by: SeenBy


def look(applied: Applied, directory: Path) -> Look:
    """Return what the loop of the state directory sees, or, if none runs, what is seen now. Nothing is touched.

    Raises CliError when the world cannot be seen.
    """
    seen = _ask_loop(directory)
    if seen is None:
        world = _observe(applied, directory)
        return Look(world, world.observation.at, _generation(directory / DATABASE, applied.digest), "files")
    # Only this manifest's launches matter, and the loop may never have looked at them.
    owners = {instance.port: instance.model for instance in seen.world.observation.instances}
    observation = replace(seen.world.observation, preflights=_preflights(applied, owners))
    observation = restrained(observation, applied.manifest, unsafe(directory))
    generation = seen.generation + (seen.digest != applied.digest)
    return Look(replace(seen.world, observation=observation), seen.at, generation, "loop")


def look_at(applied: Applied, machine: Path) -> Look:
    """Return the world on the machine that a file describes. Raises ManifestRefusedError."""
    from reconciler.cli import described
    from reconciler.manifest.described_world import NOW

    return Look(described.look(applied, machine), NOW, 0, "description")


def _ask_loop(directory: Path) -> SeenWorld | None:
    """Return the world of the loop of this state directory, or None if none runs."""
    url = running_url(directory)
    if url is None:
        return None
    try:
        return world_from_json(LoopClient(url).call("GET", "/api/v1/world"))
    except NotRunningError:
        return None
    except WireError as error:
        raise CliError(str(error)) from error


def _preflights(applied: Applied, owners: Mapping[int, str]) -> tuple[Preflight, ...]:
    """Return what the files say of each launch; `owners` are the ports that models of the loop hold."""
    from reconciler.host import Ports
    from reconciler.loop.startable import preflight

    ports = Ports(*applied.ports)
    return tuple(preflight(spec, owners, ports) for _, spec in sorted(applied.launches.items()))


def _observe(applied: Applied, directory: Path) -> World:
    from reconciler.loop.first_look import first_look

    return first_look(applied, directory)


def _generation(database: Path, digest: str) -> int:
    """Return the generation the loop would give this manifest."""
    from reconciler.store import NewerSchemaError, peek

    try:
        with peek(database) as store:
            if store.recovered:
                note(f"warning: {database} is damaged: `reconcile` will keep it beside a new, empty one")
            return store.generation(digest)
    except (NewerSchemaError, sqlite3.Error) as error:
        raise CliError(f"{database} cannot be read: {error}") from error
