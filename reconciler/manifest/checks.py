"""What one key alone cannot tell: settings that contradict each other."""

from collections.abc import Iterator

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Residency
from reconciler.engines.base import Engine
from reconciler.engines.refusals import without
from reconciler.manifest.applied import GENERATING, Overflow
from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.document import Document, Model
from reconciler.manifest.explain import place
from reconciler.manifest.fields import is_loopback
from reconciler.manifest.machine_part import Machine
from reconciler.manifest.problems import Problems
from reconciler.manifest.sizes import format_size
from reconciler.manifest.tree import Map, find

Path = tuple[str | int, ...]


def check_document(document: Document, root: Map, problems: Problems) -> None:
    """Note the contradictions within a document whose every key is valid by itself."""
    _check_gateway(document, root, problems)
    _check_ports(document, root, problems)
    _check_budget(document, root, problems)
    _check_marks(document, root, problems)
    for name, model in document.models.items():
        _check_model(name, model, root, problems)


def check_engine(engine: Engine, launch: LaunchSpec, root: Map, problems: Problems) -> LaunchSpec:
    """Note what the engine finds wrong with a model's settings, at the setting it names; return what will be started.

    What it has no use for is wrong where the model states it. Where `defaults` do, the launch is made without.
    """
    for finding in engine.check(launch):
        path: Path = ("models", launch.model, *finding.path)
        stated = find(root, path)[2] == len(path)
        if finding.needless and not stated:
            launch = without(launch, finding.path)
            continue
        message = finding.message if stated else f"{'.'.join(finding.path)}: {finding.message}"
        problems.add(place(root, path), "engine", message, finding.hint)
    return launch


def budget(machine: Machine) -> int | None:
    """Return the bytes models may hold together, where the manifest states the memory."""
    if machine.memory is None:
        return None
    reserve = machine.reserve
    kept = reserve if isinstance(reserve, int) else int(machine.memory * reserve)
    return machine.memory - kept


def too_large(document: Document) -> Iterator[str]:
    """Yield the models whose stated memory is more than the stated budget: valid, but they will never be loaded."""
    limit = budget(document.machine)
    if limit is not None:
        for name, model in sorted(document.models.items()):
            if (need := _stated(model)) > limit:
                sizes = f"{format_size(need)} is more than the {format_size(limit)} models may use"
                yield f"model {quoted(name)} can never be loaded: {sizes}"


def _check_gateway(document: Document, root: Map, problems: Problems) -> None:
    host, port = document.gateway.listen
    where = place(root, ("gateway", "listen"))
    if not is_loopback(host) and document.gateway.api_keys is None:
        message = f"{quoted(host)} can be reached from other machines, and no API key is asked for"
        problems.add(
            where, "open-gateway", message, "add gateway.api_keys: {file: keys.txt}, or listen on 127.0.0.1"
        )
    first, last = document.machine.ports
    if first <= port <= last:
        message = f"the gateway's port {port} is one of the models' ports {first}-{last}"
        problems.add(where, "port-clash", message, "take another port, or another range in machine.ports")


def _check_ports(document: Document, root: Map, problems: Problems) -> None:
    taken: dict[int, str] = {}
    for name, model in document.models.items():
        if model.port is None:
            continue
        where = place(root, ("models", name, "port"))
        if model.port in taken:
            first = taken[model.port]
            message = f"port {model.port} belongs to model {quoted(first)} already, at "
            message += str(place(root, ("models", first, "port")))
            problems.add(where, "port-clash", message, "give each its own, or leave `port` out")
        elif model.port == document.gateway.listen[1]:
            problems.add(where, "port-clash", f"port {model.port} is the gateway's", "take another port")
        taken.setdefault(model.port, name)


def _check_budget(document: Document, root: Map, problems: Problems) -> None:
    limit = budget(document.machine)
    if limit is None:
        return
    if limit <= 0:
        where = place(root, ("machine", "reserve"))
        problems.add(
            where, "budget", "the reserve leaves nothing for models", "make it smaller than machine.memory"
        )
        return
    pinned = {n: _stated(m) for n, m in sorted(document.models.items()) if m.residency is Residency.PINNED}
    total = sum(pinned.values())
    if total > limit:
        listed = ", ".join(f"{quoted(name)} {format_size(size)}" for name, size in pinned.items() if size)
        message = f"the pinned models need {format_size(total)}, the budget is {format_size(limit)}: {listed}"
        hint = "unpin one (residency: warm), or raise machine.memory; the reserve is taken off it"
        problems.add(place(root, ("machine", "memory")), "budget", message, hint)


def _check_marks(document: Document, root: Map, problems: Problems) -> None:
    marks = document.machine.watermarks
    pairs = (("soft", "hard"), ("target", "hard"), ("hard", "critical"))
    for low, high in pairs:
        lower, higher = getattr(marks, low), getattr(marks, high)
        if lower > higher:
            message = f"{low} ({lower:.0%}) is above {high} ({higher:.0%})"
            where = place(root, ("machine", "watermarks", low))
            problems.add(
                where, "watermarks", message, "the order is: soft and target, then hard, then critical"
            )


def _check_model(name: str, model: Model, root: Map, problems: Problems) -> None:
    memory = model.memory
    if memory.peak is not None and memory.steady is not None and memory.peak < memory.steady:
        message = (
            f"the peak ({format_size(memory.peak)}) is less than what it holds ({format_size(memory.steady)})"
        )
        problems.add(
            place(root, ("models", name, "memory", "peak")),
            "memory",
            message,
            "peak counts everything, not the extra",
        )
    _check_overflow(name, model, root, problems)
    health: Path = ("models", name, "health")
    if model.engine != "command" and find(root, health)[2] == len(health):
        message = f"the engine {model.engine} knows by itself how to ask whether it is ready"
        problems.add(place(root, health), "health", message, "delete it; it is for the engine `command`")
    if model.command and model.command[0] == "":
        problems.add(place(root, ("models", name, "command")), "command", "the program's name is empty")
    elif model.command and model.command[0].startswith(("~", "$")):
        message = f"{quoted(model.command[0])} is not expanded: there is no shell"
        hint = (
            "write an absolute path or one relative to this file; ${env:HOME} stands for the home directory"
        )
        problems.add(place(root, ("models", name, "command", 0)), "command", message, hint)


def _check_overflow(name: str, model: Model, root: Map, problems: Problems) -> None:
    """Note a prompt that is to be shortened although it is no conversation; a default is meant for other models."""
    path: Path = ("models", name, "context", "overflow")
    overflow = model.context.overflow
    if overflow is not Overflow.REJECT and model.role not in GENERATING and find(root, path)[2] == len(path):
        message = f"`overflow: {overflow.value}` has no effect: nothing is left out of requests to a model"
        message += f" whose role is {model.role.value}"
        problems.add(place(root, path), "overflow", message, "delete it, or write `overflow: reject`")


def _stated(model: Model) -> int:
    return max(model.memory.steady or 0, 0)
