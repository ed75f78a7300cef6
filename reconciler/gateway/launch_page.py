"""How a model is started, for people: its command line, with secrets masked. Blocking."""

from reconciler.board import Snapshot
from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Instance
from reconciler.engines import devices, registry
from reconciler.engines.base import Command
from reconciler.excerpt import excerpt, masked_arguments, secrets_of
from reconciler.host.command_line import command_line
from reconciler.host.identity import Process
from reconciler.render.model_shapes import LaunchDocument


def launch_document(snapshot: Snapshot, model: str) -> LaunchDocument | None:
    """Return how a model was started, or would be; None where neither is known."""
    spec = snapshot.applied.launches.get(model)
    mine = [i for i in snapshot.world.observation.instances if i.model == model]
    wanted = next((m.digest for m in snapshot.applied.manifest.models if m.name == model), "")
    running = min(mine, key=lambda i: (i.asleep, not i.ready, i.digest != wanted, i.pid), default=None)
    if spec is None and running is None:
        return None
    digest = running.digest if running is not None else wanted
    command, problem = _command(snapshot, spec, running)
    return LaunchDocument(
        engine=spec.engine if spec is not None else None,
        argv=masked_arguments(_argv(command, running), secrets_of(spec)),
        problem=problem,
        environment=tuple(sorted(command.env)) if command is not None else (),
        cwd=command.cwd if command is not None else None,
        port=running.port if running is not None else spec.port if spec is not None else None,
        digest=digest,
        current=digest == wanted,
        pid=running.pid if running is not None else None,
        log=snapshot.log_paths.get(model),
    )


def _argv(command: Command | None, running: Instance | None) -> tuple[str, ...]:
    """Return the words of the process; without one, or where it does not tell, those of the manifest."""
    told = command_line(Process(running.pid, running.started)) if running is not None else None
    return told or (command.argv if command is not None else ())


def _command(
    snapshot: Snapshot, spec: LaunchSpec | None, running: Instance | None
) -> tuple[Command | None, str | None]:
    """Return what the manifest in force starts, or why that cannot be told.

    A port that is chosen at the start is shown as the first of them.
    """
    if spec is None:
        return None, "the manifest does not name it any more"
    port = running.port if running is not None else spec.port or snapshot.applied.ports[0]
    try:
        return devices.on_device(registry.get(spec.engine).command(spec, port), spec), None
    except Exception as error:
        return None, excerpt(f"{type(error).__name__}: {error}", secrets_of(spec))
