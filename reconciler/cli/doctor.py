"""`reconcile doctor [PATH]`: is this machine fit for running models, and what to do where it is not?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import FAILURE, OK, colour, say, say_json

if TYPE_CHECKING:
    from reconciler.doctor import Patient
    from reconciler.host.adopt import Survivor
    from reconciler.manifest.applied import Applied


def doctor(
    path: Annotated[
        Path | None,
        Parameter(
            help="Manifest: a YAML file, or a directory whose *.yaml files are merged [default: manifests]."
        ),
    ] = None,
    /,
    *,
    json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Check this machine, and say what to do.

    Whatever keeps models from running well: memory against its limits, swap, settings of the kernel, GPUs, engines and
    their versions, ports, the state directory, what an earlier run left behind, the manifest. What cannot be read is
    said. Nothing is changed. Exits 1 if there is an error.
    """
    import platform

    import reconciler
    from reconciler.doctor import examine
    from reconciler.render.doctor_shapes import FindingDocument
    from reconciler.render.doctor_text import doctor_json, doctor_text

    found = [
        FindingDocument(f.level.value, f.topic, f.what, f.advice) for f in examine(_patient(path, state_dir))
    ]
    document = doctor_json(found, reconciler.__version__, f"{platform.system()} {platform.release()}")
    if json:
        say_json(document)
    else:
        say(doctor_text(document, colour=colour()))
    return FAILURE if document["counts"]["error"] else OK


def _patient(path: Path | None, state_dir: Path | None) -> "Patient":
    """Read everything there is to look at, without a lock or a file of our own."""
    import time
    from urllib.parse import urlsplit

    from reconciler.cli.client import running_url
    from reconciler.cli.run import DEFAULT_PATH
    from reconciler.cli.safe_mode import unsafe
    from reconciler.doctor import Patient
    from reconciler.host import holder_of
    from reconciler.host.ask import run_command
    from reconciler.loop.preflights import examine as examine_launch
    from reconciler.memory.machine import open_machine
    from reconciler.store.paths import state_dir as resolve

    directory = resolve(state_dir, create=False)
    where = path or DEFAULT_PATH
    applied, refused = _read(where, needed=path is not None)
    url = running_url(directory)
    survivors, unrecorded, blind = _left_over(directory)
    launches = applied.launches if applied is not None else {}
    return Patient(
        memory=open_machine(run_command).read(time.monotonic()),
        state_dir=directory,
        path=str(where),
        applied=applied,
        refused=refused,
        preflights={name: examine_launch(spec) for name, spec in sorted(launches.items())},
        holder=holder_of(directory),
        url=url,
        serving=urlsplit(url).port if url is not None else None,
        survivors=survivors,
        unrecorded=unrecorded,
        safe_mode=unsafe(directory),
        blind=blind,
        run=run_command,
    )


def _read(path: Path, *, needed: bool) -> "tuple[Applied | None, tuple[str, ...]]":
    """Return the manifest, or one line for each of its errors; neither where the default one is not there."""
    import os

    from reconciler.manifest.diagnostics import ManifestError
    from reconciler.manifest.load import load_manifest

    if not needed and not path.exists():
        return None, ()
    try:
        return load_manifest(path, environ=os.environ), ()
    except ManifestError as error:
        return None, tuple(str(d) for d in error.diagnostics)


def _left_over(directory: Path) -> "tuple[tuple[Survivor, ...], tuple[str, ...], str]":
    """Return the processes of ours that live, those no record knows, and why that cannot be told."""
    import sqlite3

    from reconciler.host.adopt import survivors
    from reconciler.host.owner import read_owner
    from reconciler.host.tree import launches_of
    from reconciler.store import StoreError, peek
    from reconciler.store.paths import DATABASE

    owner = read_owner(directory)
    if owner is None:
        return (), (), ""
    try:
        with peek(directory / DATABASE, whole=True) as store:
            records = store.launches()
    except StoreError as error:
        return (), (), str(error)
    except (sqlite3.Error, OSError) as error:
        return (), (), f"the ledger cannot be read: {error}"
    known = {record.launch_id for record in records}
    return survivors(records, owner), tuple(sorted(set(launches_of(owner)) - known)), ""
