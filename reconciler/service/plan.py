"""From what was asked for to the settings of a service: for whom, with which environment, in which folders."""

import math
import os
import pwd
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler import __version__
from reconciler.app import with_listen
from reconciler.gateway.server import BindError
from reconciler.heartbeat import stop_seconds
from reconciler.host.ask import run_program
from reconciler.manifest import Applied, load_manifest
from reconciler.service.settings import ServiceError, Settings
from reconciler.store import state_dir as resolve_state_dir
from reconciler.store.paths import VARIABLE as STATE_VARIABLE
from reconciler.telemetry import FORM_VARIABLE, is_secret_name

#: Seconds after which an end is no end any more, whatever the manifest allows.
LONGEST_STOP: Final = 900
#: `-P`: no folder that somebody happens to stand in is searched for modules. A program that hangs and is ended by the
#: watchdog says where it hung.
_PYTHON: Final = ("-P", "-X", "faulthandler")
_PROOF_SECONDS: Final = 60.0
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Person:
    """Whom a service runs as."""

    name: str
    home: Path
    shell: str
    #: Whether that is who asks: then what their environment says of folders counts.
    self: bool


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks for. Paths are as they were given."""

    manifest: Path
    system: bool = False
    run_as: str | None = None
    state_dir: Path | None = None
    listen: str | None = None
    #: Names of variables whose values now are to be kept.
    env: tuple[str, ...] = ()


def person(request: Request, environ: Mapping[str, str]) -> Person:
    """Return whom the service runs as: who asks, or, for one of the system, who was named or called sudo.

    Raises ServiceError for a user that there is not.
    """
    me = pwd.getpwuid(os.geteuid())
    name = request.run_as or (environ.get("SUDO_USER") if request.system else None)
    if name is None or name == me.pw_name:
        return Person(me.pw_name, Path(environ.get("HOME") or me.pw_dir), me.pw_shell, self=True)
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ServiceError(f"there is no user {name} here: name one with --run-as") from None
    return Person(found.pw_name, Path(found.pw_dir), found.pw_shell, self=False)


def kept_variables(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are to be kept in the unit, which anybody may read.

    Raises ServiceError for one that is not set, or whose name says that it is a secret.
    """
    kept = {}
    for name in names:
        if not _VARIABLE.fullmatch(name) or name not in environ:
            raise ServiceError(
                f"--env {name}: there is no such variable here; give the name of one, without a value"
            )
        if is_secret_name(name):
            raise ServiceError(
                f"--env {name}: by its name it is a secret, and units can be read by others; put API keys into a file"
                " (gateway.api_keys: {file: keys.txt})"
            )
        kept[name] = environ[name]
    return kept


def environment(who: Person, kept: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the service manager will hand to the program: what the manifest has to do with."""
    given = {"HOME": str(who.home), "USER": who.name, "LOGNAME": who.name, "SHELL": who.shell}
    return {**given, **recorded_variables(kept, environ)}


def recorded_variables(kept: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the unit sets: PATH, so that engines are found, and a log that people read."""
    return {"PATH": environ.get("PATH", os.defpath), FORM_VARIABLE: "text", **kept}


def understood(request: Request, seen: Mapping[str, str]) -> Applied:
    """Return the manifest as the service will read it, with its address. Blocking.

    Raises ManifestError, and ServiceError for an address.
    """
    try:
        return with_listen(load_manifest(request.manifest, environ=seen), request.listen)
    except BindError as error:
        raise ServiceError(str(error)) from error


def settings_for(
    request: Request,
    who: Person,
    applied: Applied,
    kept: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    mac: bool,
) -> Settings:
    """Return the settings of the service. Blocking. Raises OSError for a state directory that cannot be one."""
    return Settings(
        program=(str(Path(sys.executable).absolute()), *_PYTHON),
        manifest=str(request.manifest.absolute()),
        state_dir=str(_state_dir(request, who, mac=mac)),
        stop_seconds=longest_stop(applied),
        listen=request.listen,
        # Who starts daemons of a Mac may tell them no home, and manifests name it.
        env=recorded_variables(kept, environ) | ({"HOME": str(who.home)} if mac and request.system else {}),
        user=who.name if request.system else None,
        logs=str(who.home / "Library/Logs") if mac else "",
    )


def longest_stop(applied: Applied) -> int:
    """Return how many seconds the end may take before the program is killed."""
    return min(LONGEST_STOP, math.ceil(stop_seconds(applied)))


def prove(settings: Settings, seen: Mapping[str, str]) -> None:
    """Have the recorded program say its version, from a folder of nobody's. Blocking. Raises ServiceError."""
    try:
        said = run_program(
            [*settings.program, "-m", "reconciler", "--version"], _PROOF_SECONDS, env=seen, cwd="/"
        )
    except OSError as error:
        raise ServiceError(f"the program that would be recorded does not start: {error}") from error
    if __version__ not in said.out.split()[:2]:
        raise ServiceError(
            f"{settings.program[0]} does not run reconcile from another folder ({said.complaint}): install it there"
            " (pip install .)"
        )


def _state_dir(request: Request, who: Person, *, mac: bool) -> Path:
    if who.self or request.state_dir is not None or os.environ.get(STATE_VARIABLE):
        return resolve_state_dir(request.state_dir, create=False)
    user = "Library/Application Support/reconciler" if mac else ".local/state/reconciler"
    return resolve_state_dir(who.home / user, create=False)
