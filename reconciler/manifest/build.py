"""From a validated document to the shapes the rest of the program uses."""

import hashlib
import json
import os
from pathlib import Path

from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.core.memory import Watermarks
from reconciler.core.types import Manifest, ModelSpec
from reconciler.leases import QueueLimits
from reconciler.manifest.applied import ApiKey, GatewaySettings, RequestLimits
from reconciler.manifest.document import Document, Model


def build_launch(name: str, model: Model, directory: Path) -> LaunchSpec:
    """Return what starts the model. Relative paths start at `directory`, an absolute one."""
    return LaunchSpec(
        model=name,
        engine=model.engine,
        command=_command(model.command or (), directory),
        weights=_absolute(model.weights, directory) if model.weights else None,
        role=model.role,
        context_tokens=model.context.max_tokens,
        slots=model.context.slots,
        cache_type=model.context.cache_type,
        context_bytes_per_token=model.context.bytes_per_token,
        load_mode=model.memory.mode,
        cwd=_absolute(model.cwd or ".", directory),
        # Where a manifest lies is no setting of an engine that is told absolute paths.
        cwd_matters=model.cwd is not None or model.engine == "command",
        env=tuple(sorted(model.env.items())),
        args=model.args,
        port=model.port,
        health_path=model.health,
    )


def build_manifest(document: Document, launches: dict[str, LaunchSpec]) -> Manifest:
    """Return the desired state; its generation is for the loop to count."""
    specs = tuple(build_spec(name, document.models[name], launches[name]) for name in sorted(document.models))
    machine = document.machine
    marks = machine.watermarks
    return Manifest(
        models=specs,
        memory=machine.memory,
        reserve=machine.reserve,
        watermarks=Watermarks(marks.soft, marks.hard, marks.critical, marks.target, marks.window),
        max_swap=machine.swap.max_used,
    )


def build_spec(name: str, model: Model, launch: LaunchSpec) -> ModelSpec:
    """Return one model as decisions see it."""
    return ModelSpec(
        name=name,
        digest=launch_digest(launch),
        priority=model.priority,
        residency=model.residency,
        steady=model.memory.steady,
        peak=model.memory.peak,
        idle_ttl=model.idle_ttl,
        min_resident=model.min_resident,
        may_preempt=model.may_preempt,
        load_timeout=model.timeouts.load,
        drain_timeout=model.timeouts.drain,
        stop_grace=model.timeouts.stop,
    )


def build_limits(model: Model) -> RequestLimits:
    """Return the bounds of one model's requests."""
    queue = QueueLimits(max=model.queue.max, timeout=model.queue.timeout)
    return RequestLimits(queue=queue, first_byte=model.timeouts.first_byte, request=model.timeouts.request)


def build_gateway(document: Document, api_keys: tuple[str, ...]) -> GatewaySettings:
    """Return where clients connect; `api_keys` are the keys themselves."""
    host, port = document.gateway.listen
    hosts, origins = document.gateway.hosts, document.gateway.origins
    return GatewaySettings(
        host=host, port=port, api_keys=tuple(map(ApiKey, api_keys)), hosts=hosts, origins=origins
    )


def content_digest(document: Document, directory: Path, api_keys: tuple[str, ...]) -> str:
    """Return 16 hex digits that change exactly when the meaning does: not with comments, order or notation.

    `defaults` count through the models that take them.
    """
    meaning = document.model_dump(exclude={"defaults"})
    for model in meaning["models"].values():
        model["aliases"] = sorted(model["aliases"])
    parts = [meaning, str(directory), sorted(api_keys)]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _absolute(path: str, directory: Path) -> str:
    return os.path.normpath(directory / path)


def _command(command: tuple[str, ...], directory: Path) -> tuple[str, ...]:
    """Make a program path with a slash absolute; a bare name is looked up on PATH when it is started."""
    if command and "/" in command[0]:
        return (_absolute(command[0], directory), *command[1:])
    return command
