"""Installing a service, removing it, and saying how it is."""

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from reconciler import __version__, leftovers
from reconciler.host import HostError, holder_of
from reconciler.host.adopt import survivors
from reconciler.host.owner import read_owner
from reconciler.host.tree import launches_of
from reconciler.manifest import ManifestError, load_manifest
from reconciler.render.service_shapes import ServiceDocument
from reconciler.service import files, plan
from reconciler.service.ended import last_exit
from reconciler.service.managers import ServiceManager, State
from reconciler.service.settings import MARKER, ServiceError, Settings, UnreachableError, read, recorded
from reconciler.store import NewerSchemaError, StoreError, peek
from reconciler.store.paths import DATABASE, RUN_FILE

Tell = Callable[[str], None]


def install(manager: ServiceManager, settings: Settings, *, start: bool, tell: Tell) -> None:
    """Write the unit and put it into force; what was done is told, a line or a diff at a time. Blocking.

    Raises UnreachableError before anything is written, ServiceError.
    """
    new = manager.text(settings)
    old = files.check_ours(manager.path)
    manager.reach()
    if start:
        _check_free(manager, Path(settings.state_dir))
    if old == new:
        tell(f"{manager.path} is as it should be")
    else:
        files.write(manager.path, new, manager.mode)
        tell(f"{'wrote' if old is None else 'changed'} {manager.path}")
        if old is not None:
            tell(files.changes(manager.path, old, new))
    manager.load(settings, changed=old not in (None, new), start=start)
    found = manager.state()
    pid = f" (pid {found.pid})" if found.pid is not None else ""
    tell(f"{manager.name} is {found.state}{pid}")
    for hint in manager.hints():
        tell(hint)
    running = _running_version(Path(settings.state_dir))
    if old == new and running not in (None, __version__):
        tell(f"it still runs version {running}, this is {__version__}: {manager.anew()}")


def _running_version(state_dir: Path) -> str | None:
    """Return the version that the loop of a state directory left there when it began to serve; None = none serves."""
    try:
        return str(json.loads((state_dir / RUN_FILE).read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _check_free(manager: ServiceManager, state_dir: Path) -> None:
    """Raise ServiceError while a loop that is not the service's rules the state directory: both cannot."""
    holder = holder_of(state_dir)
    if holder is not None and holder.pid != manager.state().pid:
        raise ServiceError(
            f"a loop runs already (pid {holder.pid}) with the state directory {state_dir}: end it first"
            f" (reconcile stop --state-dir {state_dir}), or use --no-start"
        )


def uninstall(manager: ServiceManager, *, tell: Tell) -> None:
    """End the service gently, and remove its file. Blocking. Raises ServiceError, UnreachableError."""
    old = files.check_ours(manager.path)
    if old is None:
        tell(f"{manager.name} is not installed: there is no {manager.path}")
        return
    settings = recorded(old)
    try:
        manager.reach()
    except UnreachableError as error:
        raise UnreachableError(
            f"{error}; to remove it for good nonetheless, delete {manager.path}"
        ) from error
    manager.unload(settings.stop_seconds if settings is not None else plan.LONGEST_STOP)
    files.remove(manager.path)
    manager.forget()
    tell(f"stopped {manager.name} and removed {manager.path}")
    if settings is not None:
        _end_leftovers(Path(settings.state_dir), settings.user, tell)


def _end_leftovers(directory: Path, user: str | None, tell: Tell) -> None:
    """End models that a crash just before has left up; those of another user are theirs to end."""
    if not _left(directory):
        return
    if user is not None and os.geteuid() == 0 and user != "root":
        tell(f"models are left running: as {user}, reconcile stop --state-dir {directory}")
        return
    try:
        ended = leftovers.end_leftovers(directory)
    except HostError as error:
        raise ServiceError(f"the service is removed, but models are left running: {error}") from error
    tell(f"ended the models that were left running: {', '.join(ended)}")


def _left(directory: Path) -> bool:
    owner = read_owner(directory)
    if owner is None:
        return False
    try:
        with peek(directory / DATABASE) as store:
            records = store.launches()
        known = {record.launch_id for record in records}
        return bool(survivors(records, owner)) or not known.issuperset(launches_of(owner))
    except (StoreError, NewerSchemaError, sqlite3.Error, OSError) as error:
        raise ServiceError(
            f"the service is removed; whether models are left cannot be told: {error}"
        ) from error


def status(manager: ServiceManager, environ: Mapping[str, str]) -> ServiceDocument:
    """Return how the service is. Blocking. Raises ServiceError for a file that cannot be read."""
    try:
        text = read(manager.path)
    except OSError as error:
        raise ServiceError(f"{manager.path} cannot be read: {error.strerror or error}") from error
    ours = text is not None and MARKER in text
    settings = recorded(text) if text is not None else None
    found, problem = _asked(manager) if text is not None else (State("stopped"), "")
    ended, ended_at = _last_end(settings, found)
    return ServiceDocument(
        name=manager.name,
        manager=manager.kind,
        scope="system" if manager.system else "user",
        path=str(manager.path),
        installed=ours,
        foreign=text is not None and not ours,
        current=_current(manager, settings, text, environ) if ours and text is not None else None,
        state=found.state,
        enabled=found.enabled,
        pid=found.pid,
        since=_started(found.pid),
        restarts=found.restarts,
        last_exit=ended,
        last_exit_at=ended_at,
        says=found.says,
        manifest=settings.manifest if settings is not None else None,
        state_dir=settings.state_dir if settings is not None else None,
        listen=settings.listen if settings is not None else None,
        problem=problem,
    )


def _asked(manager: ServiceManager) -> tuple[State, str]:
    try:
        manager.reach()
        return manager.state(), ""
    except ServiceError as error:
        return State("unknown"), str(error)


def _last_end(settings: Settings | None, found: State) -> tuple[str | None, float | None]:
    """Return how the last run ended, and when: as the service manager knows, else as was written down after it."""
    if found.last_exit is not None or settings is None:
        return found.last_exit, None
    return last_exit(Path(settings.state_dir)) or (None, None)


def _current(
    manager: ServiceManager, settings: Settings | None, text: str, environ: Mapping[str, str]
) -> bool:
    """Return whether the file is what this version would write, for the manifest as it is now where it can be read."""
    if settings is None:
        return False
    with suppress(ManifestError, OSError):
        applied = load_manifest(Path(settings.manifest), environ={**environ, **settings.env})
        settings = replace(settings, stop_seconds=plan.longest_stop(applied))
    try:
        return manager.text(settings) == text
    except ServiceError:
        return False


def _started(pid: int | None) -> float | None:
    if pid is None:
        return None
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None
