"""`reconcile validate`: is the manifest right, and what was understood?"""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import note, say, say_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.core.types import ModelSpec, Preflight
    from reconciler.manifest.applied import Applied


def validate(
    path: Annotated[
        Path, Parameter(help="Manifest: a YAML file, or a directory whose *.yaml files are merged.")
    ] = Path("manifests"),
    /,
    *,
    rev: options.Rev = None,
    machine: options.Machine = None,
    json: options.Json = False,
) -> int:
    """Check a manifest and print what was understood of it.

    All errors come at once, each with file:line:col, on stderr. A model that could not be started on this machine as it
    is now is a warning. Nothing is started or written.
    """
    from reconciler.cli.manifests import read_manifest
    from reconciler.render.notes import note_lines

    applied = read_manifest(path, rev)
    for warning in applied.warnings:
        note(f"warning: {warning}")
    document = understood(applied, _elsewhere(machine, applied))
    if json:
        say_json(document)
    else:
        say(_text(document))
    for model in document["models"]:
        if problem := model["problem"]:
            where = "there" if machine else "here now"
            note(f"warning: models.{model['name']} cannot be started {where}: {problem}")
    for line in note_lines(((m["name"], m["notes"]) for m in document["models"]), "models."):
        note(f"warning: {line}")
    if machine is None and (problem := _no_budget(applied)):
        note(f"warning: {problem}")
    return 0


def _no_budget(applied: "Applied") -> str:
    """Return that nothing is left for models on this machine, or nothing: the manifest may be for another one."""
    from reconciler.core import book
    from reconciler.host.ask import run_command
    from reconciler.memory.machine import open_machine
    from reconciler.render.units import size

    manifest, memory = applied.manifest, open_machine(run_command).read(time.monotonic())
    if book.budget(manifest, memory) != 0:
        return ""
    there = size(book.total(manifest, memory))
    return f"machine.reserve leaves nothing for models here: it keeps {_kept(manifest.reserve)}, and there are {there}"


def _elsewhere(machine: Path | None, applied: "Applied") -> "Mapping[str, Preflight] | None":
    """Return what is known of each model on a described machine, or None where it is this one."""
    if machine is None:
        return None
    from reconciler.cli import described

    there = described.look(applied, machine)
    return {found.model: found for found in there.observation.preflights}


def understood(applied: "Applied", elsewhere: "Mapping[str, Preflight] | None" = None) -> dict[str, Any]:
    """Return the sizes and choices the manifest was read to mean, in bytes; null = not stated, or not known.

    Reads the files that the models name: `estimate` is what their engine makes of them, `problem` why a model could
    not be started now. Ports are not looked at: a loop that runs holds its own.
    """
    from reconciler.loop.preflights import examine

    manifest = applied.manifest
    aliases: dict[str, list[str]] = {}
    for alias, name in sorted(applied.routes.items()):
        if alias != name:
            aliases.setdefault(name, []).append(alias)
    models = []
    for spec in manifest.models:
        launch = applied.launches[spec.name]
        found = elsewhere[spec.name] if elsewhere else examine(launch)
        models.append(
            {
                "name": spec.name,
                "engine": launch.engine,
                "role": launch.role.value,
                "residency": spec.residency.value,
                "priority": spec.priority,
                "steady": spec.steady,
                "peak": spec.peak,
                "estimate": found.steady,
                "peak_estimate": found.peak,
                "problem": _problem(spec, found, applied.source.path),
                "notes": list(found.notes),
                "aliases": aliases.get(spec.name, []),
            }
        )
    return {
        "formatVersion": 1,
        "path": applied.source.path,
        "files": list(applied.source.files),
        "digest": applied.digest,
        "memory": manifest.memory,
        "reserve": manifest.reserve,
        "models": models,
        "virtual": [{"name": name, "models": list(v.models)} for name, v in sorted(applied.virtual.items())],
        "gates": [
            {"name": name, "limit": gate.limit, "above": gate.above, "roles": sorted(gate.roles)}
            for name, gate in sorted(applied.gateway.gates.items())
        ],
        "keys": len(applied.gateway.api_keys),
    }


def _problem(spec: "ModelSpec", found: "Preflight", path: str) -> str | None:
    """Return why the loop would not start a model, in the words of a verdict, or None."""
    from reconciler.core.types import Reason

    if found.reason is not None:
        return f"{found.reason}: {found.message}"
    if spec.steady is None and found.steady is None:
        command = shlex.join(("reconcile", "measure", spec.name, path, "--write"))
        measured = f"give memory.steady, or, while no loop runs, `{command}`"
        return f"{Reason.SIZE_UNKNOWN}: {found.message or measured}"
    return None


def _text(document: dict[str, Any]) -> str:
    from reconciler.render.traffic_text import virtual_lines

    reserve = document["reserve"]
    kept = _kept(reserve) if isinstance(reserve, float) else _bytes(reserve)
    count = len(document["models"])
    lines = [
        f"{document['path']} is valid: {count} model{'' if count == 1 else 's'}",
        f"memory   {_bytes(document['memory'], 'auto (what the machine offers)')}, reserve {kept}",
    ]
    lines += [*_gateway(document), *virtual_lines(document["virtual"])]
    if count:
        lines += _table(document["models"])
    return "\n".join(lines)


def _gateway(document: dict[str, Any]) -> list[str]:
    """Return the gates with what they were understood to ask for, and how many API keys there are."""
    from reconciler.core.words import counted

    gates = [f"{g['name']} limit {g['limit']}{_passers(g)}" for g in document["gates"]]
    keys = counted(document["keys"], "API key") if document["keys"] else "no API key is asked for"
    return ([f"gates    {'   '.join(gates)}"] if gates else []) + [f"keys     {keys}"]


def _passers(gate: dict[str, Any]) -> str:
    if not gate["roles"]:
        return " (models that name it)"
    above = f" from {_bytes(gate['above'])}" if gate["above"] is not None else ""
    return f" ({', '.join(gate['roles'])}{above})"


def _kept(reserve: float | int) -> str:
    from reconciler.render.units import size

    # 99.9 % must not read as everything.
    return f"{reserve * 100:.6g}% of it" if isinstance(reserve, float) else size(reserve)


def _table(models: list[dict[str, Any]]) -> list[str]:
    head = ("MODEL", "ENGINE", "ROLE", "RESIDENCY", "PRIORITY", "STEADY", "PEAK")
    rows = [head]
    for m in models:
        choices = (m["engine"], m["role"], m["residency"], str(m["priority"]))
        rows.append((m["name"], *choices, _steady(m), _peak(m)))
    widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _peak(model: dict[str, Any]) -> str:
    steady = model["steady"] if model["steady"] is not None else model["estimate"]
    estimated = model["peak_estimate"]
    if model["peak"] is None and estimated is not None and estimated > (steady or 0):
        return f"{_bytes(estimated)} (estimated)"
    return _bytes(model["peak"], "as steady")


def _steady(model: dict[str, Any]) -> str:
    if model["steady"] is None and model["estimate"] is not None:
        return f"{_bytes(model['estimate'])} (estimated)"
    return _bytes(model["steady"], "unknown")


def _bytes(count: int | None, unknown: str = "") -> str:
    """Return a size with its exact bytes: a unit that was misread is seen here first."""
    from reconciler.render.units import size

    return unknown if count is None else f"{size(count)} ({count} bytes)"
