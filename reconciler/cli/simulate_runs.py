"""What is simulated: every manifest with every policy that was asked for, and what is known of this machine's past."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.manifests import read_manifest
from reconciler.cli.output import CliError, note
from reconciler.core.types import Policy, Prewarm

if TYPE_CHECKING:
    from reconciler.simulate.layout import Layout
    from reconciler.simulate.speeds_past import Past


@dataclass(frozen=True, slots=True)
class Known:
    """What the state directory tells of this machine."""

    directory: Path
    past: "Past"


@dataclass(frozen=True, slots=True)
class Case:
    """One run that is to be made."""

    #: Path of the manifest.
    manifest: str
    layout: "Layout"


def known(directory: Path) -> Known:
    """Return what was measured and remembered here, which is nothing where no loop ever ran. Raises CliError."""
    from reconciler.simulate.speeds_past import Past
    from reconciler.store import DATABASE, NewerSchemaError, StoreError, peek
    from reconciler.store.past import EVICTION_LIMIT, LOAD_LIMIT, REQUEST_LIMIT

    database = directory / DATABASE
    try:
        with peek(database, whole=True) as store:
            past = Past(
                store.requests(limit=REQUEST_LIMIT),
                store.loads(limit=LOAD_LIMIT),
                store.evictions(limit=EVICTION_LIMIT),
            )
            return Known(directory, past)
    except StoreError as error:
        raise CliError(str(error)) from error
    except (NewerSchemaError, sqlite3.Error) as error:
        raise CliError(f"{database} cannot be read: {error}") from error


def base(path: Path, machine: Path | None, here: Known) -> Case:
    """Return a manifest as it is, on the described machine or on this one. Raises CliError.

    What is odd in it is said on stderr.
    """
    from reconciler.simulate.layout_build import layout_here, layout_there

    applied = read_manifest(path, None)
    for warning in applied.warnings:
        note(f"warning: {warning}")
    name = str(path)
    if machine is not None:
        from reconciler.cli.described import read_machine

        there = read_machine(machine, applied.launches)
        return Case(name, layout_there(applied, there, name=name))
    from reconciler.cli.dry_run import look

    return Case(name, layout_here(applied, look(applied, here.directory).world, name=name, past=here.past))


def variants(bases: Sequence[Case], policies: Sequence[Policy], prewarms: Sequence[Prewarm]) -> list[Case]:
    """Return each manifest with each policy and each way of loading in advance; none given = the manifest's own.

    A run is named by what tells it from the others.
    """
    made = []
    for case in bases:
        manifest = case.layout.manifest
        for policy in dict.fromkeys(policies or (manifest.policy,)):
            for prewarm in dict.fromkeys(prewarms or (manifest.prewarm,)):
                parts = [
                    *([case.manifest] if len(bases) > 1 else []),
                    *([policy.value] if len(set(policies)) > 1 else []),
                    *([f"prewarm {prewarm.value}"] if len(set(prewarms)) > 1 else []),
                ]
                layout = replace(
                    case.layout,
                    name=", ".join(parts) or case.manifest,
                    manifest=replace(manifest, policy=policy, prewarm=prewarm),
                )
                made.append(Case(case.manifest, layout))
    return made
