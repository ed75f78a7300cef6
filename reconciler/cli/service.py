"""`reconcile service install|uninstall|status`: run under systemd or launchd."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import FAILURE, OK, CliError, UsageError, note, say, say_json

if TYPE_CHECKING:
    from cyclopts import App

    from reconciler.service.managers import ServiceManager
    from reconciler.service.plan import Person, Request
    from reconciler.service.settings import Settings, UnreachableError

Platform = Literal["linux", "macos"]
_HERE: Final[Platform] = "macos" if sys.platform == "darwin" else "linux"
_VARIABLES: Final = (
    "a service does not see the variables of this terminal: keep those that are no secrets with --env NAME, and put"
    " API keys into a file (gateway.api_keys: {file: keys.txt})"
)
_WITHOUT: Final = (
    "In a container, run `reconcile PATH` in the foreground instead (docker run --init --restart unless-stopped). In"
    " WSL, turn systemd on: [boot] systemd=true in /etc/wsl.conf, then wsl --shutdown."
)

System = Annotated[
    bool,
    Parameter(
        name="--system",
        negative=(),
        show_default=False,
        help="A service of the machine, from its start on, not of this user; needs root.",
    ),
]
Name = Annotated[
    str,
    Parameter(name="--name", metavar="NAME", help="What the service is called; a second one needs another."),
]


def add_service(app: "App", sort_key: int) -> None:
    """Add the verb with its three."""
    from cyclopts import App, Group

    group = App(
        name="service",
        help="Run as a service: under systemd, or launchd on a Mac.",
        sort_key=sort_key,
        help_epilogue="",
        group_parameters=Group("Options"),
    )
    for place, verb in enumerate((install, uninstall, status)):
        group.command(verb, sort_key=place, help_epilogue="")
    app.command(group)


def install(
    path: Annotated[
        Path, Parameter(help="Manifest: a YAML file, or a directory whose *.yaml files are merged.")
    ] = Path("manifests"),
    /,
    *,
    system: System = False,
    run_as: Annotated[
        str | None,
        Parameter(
            metavar="USER", help="With --system: whom it runs as [default: who called sudo, else root]."
        ),
    ] = None,
    name: Name = "reconcile",
    listen: Annotated[
        str | None,
        Parameter(
            metavar="HOST:PORT", help="Where clients connect, in place of the manifest's gateway.listen."
        ),
    ] = None,
    env: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            show_default=False,
            metavar="VARIABLE",
            help="Keep this variable as it is now, for the manifest and the models; may be repeated. No secrets.",
        ),
    ] = (),
    no_start: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Leave it stopped for now.")
    ] = False,
    print_only: Annotated[
        bool,
        Parameter(name="--print", negative=(), show_default=False, help="Print the unit; touch nothing."),
    ] = False,
    platform: Annotated[
        Platform | None, Parameter(help="With --print: the unit of this one, not of the machine's own.")
    ] = None,
    state_dir: options.StateDir = None,
) -> int:
    """Have the loop started by the system, kept up, and stopped gently.

    Checks the manifest first, as the service will see it. Again it says that nothing changed, or shows what did and
    restarts the service; a file of the same name that is not ours stays. The unit holds no secrets.
    """
    from reconciler.service.plan import Request

    if run_as is not None and not system:
        raise UsageError("--run-as works with --system only: a service of a user runs as that user")
    if platform is not None and not print_only:
        raise UsageError(
            "--platform works with --print only: a service runs on the machine that it is installed on"
        )
    request = Request(path, system, run_as, state_dir, listen, env)
    return _checked(lambda: _install(request, name, platform, start=not no_start, print_only=print_only))


def uninstall(*, system: System = False, name: Name = "reconcile") -> int:
    """Stop the service gently, its models with it, and remove it.

    Requests in flight get their drain time. What was learnt and logged stays in the state directory.
    """

    def act() -> int:
        from reconciler.service import actions

        _require_root(system)
        actions.uninstall(_manager(name, system, Path.home()), tell=say)
        return OK

    return _checked(act)


def status(*, system: System = False, name: Name = "reconcile", json: options.Json = False) -> int:
    """Say whether the service is installed and runs, since when, and how it last ended.

    Exits 1 if it is not installed or does not run.
    """

    def act() -> int:
        from reconciler.render.plan_document import as_json
        from reconciler.render.service_text import service_text
        from reconciler.service import actions

        document = as_json(actions.status(_manager(name, system, Path.home()), os.environ))
        if json:
            say_json(document)
        else:
            say(service_text(document))
        return OK if document["installed"] and document["state"] == "running" else FAILURE

    return _checked(act)


def _install(
    request: "Request", name: str, platform: Platform | None, *, start: bool, print_only: bool
) -> int:
    from reconciler.service import actions, plan
    from reconciler.service.settings import UnreachableError

    who = plan.person(request, os.environ)
    kept = plan.kept_variables(request.env, os.environ)
    seen = plan.environment(who, kept, os.environ)
    settings = _settings(request, who, kept, seen, mac=(platform or _HERE) == "macos")
    manager = _manager(name, request.system, who.home, platform)
    if print_only:
        sys.stdout.write(manager.text(settings))
        return OK
    _require_root(request.system)
    plan.prove(settings, seen)
    try:
        actions.install(manager, settings, start=start, tell=say)
    except UnreachableError as error:
        return _unreachable(manager, settings, error)
    return OK


def _settings(
    request: "Request", who: "Person", kept: dict[str, str], seen: dict[str, str], *, mac: bool
) -> "Settings":
    """Return the settings once the manifest is right, and say what may be wrong with it."""
    from reconciler.cli.manifests import ManifestRefusedError
    from reconciler.manifest import ManifestError
    from reconciler.service import plan

    try:
        applied = plan.understood(request, seen)
    except ManifestError as error:
        hint = "" if "environment variable" not in error.render() else f"\n{_VARIABLES}"
        raise ManifestRefusedError(error.render() + hint) from error
    for warning in applied.warnings:
        note(f"warning: {warning}")
    return plan.settings_for(request, who, applied, kept, os.environ, mac=mac)


def _unreachable(manager: "ServiceManager", settings: "Settings", error: "UnreachableError") -> int:
    """Say how to use the unit by hand, which is printed, and that nothing was installed."""
    note(
        f"error: {error}; nothing was installed. The unit is printed; to use it where there is {manager.kind}:"
    )
    note(f"  save it as {manager.path}")
    for command in manager.by_hand():
        note(f"  {command}")
    note(_WITHOUT)
    sys.stdout.write(manager.text(settings))
    return FAILURE


def _manager(name: str, system: bool, home: Path, platform: Platform | None = None) -> "ServiceManager":
    from reconciler.service.launchd import Launchd
    from reconciler.service.settings import check_name
    from reconciler.service.systemd import Systemd

    made: type[Launchd | Systemd] = Launchd if (platform or _HERE) == "macos" else Systemd
    return made(check_name(name), system=system, home=home)


def _require_root(system: bool) -> None:
    if system and os.geteuid() != 0:
        raise CliError("--system needs root: run it with sudo, or leave it out for a service of your own")


def _checked(act: Callable[[], int]) -> int:
    """Do something with a service; its refusals become one message and exit code 1."""
    from reconciler.service.settings import ServiceError

    try:
        return act()
    except ServiceError as error:
        raise CliError(str(error)) from error
