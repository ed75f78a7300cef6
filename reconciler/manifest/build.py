"""From a validated document to the shapes the rest of the program uses."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from reconciler.core.launch import Batching, Device, LaunchSpec, Limits, LoraAdapter, Sleep, launch_digest
from reconciler.core.memory import Watermarks
from reconciler.core.types import Manifest, ModelSpec
from reconciler.leases import QueueLimits
from reconciler.manifest.applied import (
    GENERATING,
    STANDARD_GATES,
    ApiKey,
    ContextLimits,
    Gate,
    GatewaySettings,
    Probing,
    RequestLimits,
    Rule,
    StateSettings,
    Virtual,
    When,
)
from reconciler.manifest.document import Document, Model
from reconciler.manifest.gateway_part import Gateway
from reconciler.manifest.virtual_part import VirtualModel, WhenPart

#: Requests wait at most so many seconds for models in use, and never longer than half of the time they wait at all.
MOST_PATIENCE: Final = 300.0
#: Rounds of the hash of API keys: about 10 ms, once for each time a manifest is read.
SLOW_ROUNDS: Final = 20_000


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
        cwd_matters=model.cwd is not None or model.engine in ("command", "python"),
        env=tuple(sorted(model.env.items())),
        args=model.args,
        port=model.port,
        health_path=model.health,
        entry=model.entry,
        python=_absolute(model.python, directory) if model.python else None,
        projector=_absolute(model.projector, directory) if model.projector else None,
        adapters=tuple(LoraAdapter(_absolute(a.path, directory), a.scale) for a in model.adapters),
        draft=_absolute(model.draft, directory) if model.draft else None,
        device=Device(model.device.gpus, model.device.cpus, model.device.nice, model.device.threads),
        allocator_limit=model.memory.limit,
        batch=Batching(model.batch.max, model.batch.wait),
        saves_state=model.state.save is True,
        sleep=model.sleep,
        limits=Limits(
            memory=model.limits.memory,
            oom_score_adj=model.limits.oom_score_adj,
            nofile=model.limits.rlimits.nofile,
            core=model.limits.rlimits.core,
            address_space=model.limits.rlimits.address_space,
        ),
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
        policy=document.policy,
        prewarm=document.prewarm,
        prewarm_per_hour=document.prewarm_per_hour,
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
        cooldown=model.cooldown,
        may_preempt=model.may_preempt,
        patience=min(MOST_PATIENCE, model.queue.timeout / 2),
        load_timeout=model.timeouts.load,
        drain_timeout=model.timeouts.drain,
        stop_grace=model.timeouts.stop,
        reload_after=model.reload_after,
        sleeps=launch.sleep is not Sleep.OFF,
        restart_after=model.restart.after,
        restart_requests=model.restart.requests,
        restart_growth=model.restart.growth,
    )


def build_states(document: Document) -> dict[str, StateSettings]:
    """Return, for each model whose state is kept while it is not in memory, how."""
    return {
        name: StateSettings(
            save=model.state.save if isinstance(model.state.save, str) else None,
            load=model.state.load,
            timeout=model.state.timeout,
            most=model.state.max,
        )
        for name, model in sorted(document.models.items())
        if model.state.save is not False or model.state.load is not None
    }


def build_limits(model: Model, routes: Mapping[str, str]) -> RequestLimits:
    """Return how one model's requests are treated; `routes` leads from names and aliases to models."""
    context = model.context
    summarizer = routes[context.summarizer] if context.summarizer is not None else None
    return RequestLimits(
        queue=QueueLimits(max=model.queue.max, timeout=model.queue.timeout),
        first_byte=model.timeouts.first_byte,
        chunk=model.timeouts.chunk,
        request=model.timeouts.request,
        concurrency=model.concurrency,
        gates=model.gate,
        priority=model.priority,
        context=ContextLimits(context.max_tokens, context.overflow, summarizer),
        role=model.role,
        liveness=model.liveness is Probing.AUTO,
    )


def build_virtual(document: Document, routes: Mapping[str, str]) -> dict[str, Virtual]:
    """Return the virtual models by name, sorted; a rule that holds always comes last in each."""
    return {name: _virtual(name, part, routes) for name, part in sorted(document.virtual.items())}


def _virtual(name: str, part: VirtualModel, routes: Mapping[str, str]) -> Virtual:
    rules = [
        Rule(_when(rule.when), tuple(routes[use] for use in rule.use), rule.strategy or part.strategy)
        for rule in part.rules
    ]
    if part.use is not None:
        rules.append(Rule(When(), tuple(routes[use] for use in part.use), part.strategy))
    return Virtual(name, tuple(rules))


def _when(part: WhenPart) -> When:
    return When(
        role=part.role,
        image=part.image,
        code=part.code,
        tools=part.tools,
        min_tokens=part.min_tokens,
        max_tokens=part.max_tokens,
        header=next(iter(part.header.items())) if part.header else None,
    )


def build_gates(gateway: Gateway) -> dict[str, Gate]:
    """Return the gates by name, sorted: the standard ones as the manifest changes them, and its own."""
    gates = dict(STANDARD_GATES)
    for name, entry in gateway.gates.items():
        if entry is None:
            gates.pop(name, None)
            continue
        known = STANDARD_GATES.get(name)
        roles = known.roles if known else GENERATING if entry.above is not None else frozenset()
        above = known.above if known else None
        gates[name] = Gate(
            limit=entry.limit or (known.limit if known else 1),
            above=above if entry.above is None else entry.above,
            roles=roles if entry.roles is None else frozenset(entry.roles),
        )
    return dict(sorted(gates.items()))


def build_gateway(
    document: Document, api_keys: tuple[ApiKey, ...], key_variables: tuple[str, ...] = ()
) -> GatewaySettings:
    """Return where clients connect and who may; `key_variables` name what in the environment holds keys."""
    gateway = document.gateway
    host, port = gateway.listen
    return GatewaySettings(
        host=host,
        port=port,
        api_keys=api_keys,
        hosts=gateway.hosts,
        origins=gateway.origins,
        max_body=gateway.max_body,
        max_connections=gateway.max_connections,
        comments=gateway.comments,
        gates=build_gates(gateway),
        key_variables=key_variables,
    )


def content_digest(
    document: Document, directory: Path, gateway: GatewaySettings, virtual: Mapping[str, Virtual]
) -> str:
    """Return 16 hex digits that change exactly when the meaning does: not with comments, order or notation.

    `defaults` count through the models that take them. The digest is shown, so nobody may find a key by trying: keys
    count by a slow hash.
    """
    left_out: dict[str, Any] = {"defaults": True, "gateway": {"api_keys", "gates"}, "virtual": True}
    meaning = document.model_dump(exclude=left_out)
    for model in meaning["models"].values():
        model["aliases"] = sorted(model["aliases"])
    gates = [
        [name, gate.limit, gate.above, sorted(gate.roles)] for name, gate in sorted(gateway.gates.items())
    ]
    stands_for = [asdict(virtual[name]) for name in sorted(virtual)]
    parts = [meaning, str(directory), gates, stands_for, _fingerprint(gateway.api_keys)]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fingerprint(keys: tuple[ApiKey, ...]) -> str:
    if not keys:
        return ""
    parts = sorted([key.key, key.name, *sorted(key.scopes), str(key.priority)] for key in keys)
    return hashlib.pbkdf2_hmac("sha256", json.dumps(parts).encode(), b"reconcile", SLOW_ROUNDS).hex()


def _absolute(path: str, directory: Path) -> str:
    return os.path.normpath(directory / path)


def _command(command: tuple[str, ...], directory: Path) -> tuple[str, ...]:
    """Make a program path with a slash absolute; a bare name is looked up on PATH when it is started."""
    if command and "/" in command[0]:
        return (_absolute(command[0], directory), *command[1:])
    return command
