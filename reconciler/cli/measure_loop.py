"""Measuring with a running loop: it loads the model by its own rules, and unloads it again."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.cli.measure_progress import count_down
from reconciler.cli.measure_result import check_editable, document, finished, with_note
from reconciler.cli.output import CliError

if TYPE_CHECKING:
    from reconciler.cli.client import LoopClient
    from reconciler.manifest.applied import Applied
    from reconciler.render.measure_shapes import MeasureDocument


def by_loop(
    loop: "LoopClient", name: str, path: Path | None, seconds: float, timeout: float, *, write: bool
) -> "MeasureDocument":
    """Return what the model took while the loop loaded it and `seconds` after. Raises CliError."""
    from reconciler.cli.ask import carry_out
    from reconciler.cli.client import key_header
    from reconciler.cli.names import find_model
    from reconciler.core.launch import Role
    from reconciler.host.ask import run_command
    from reconciler.host.identity import Process, identify
    from reconciler.measure import Watch, ask_model
    from reconciler.memory.machine import open_machine
    from reconciler.wire import world_from_json

    status = loop.status()
    before = find_model(status, name)
    name = before["name"]
    # Whoever names a manifest means what it says: the loop measures what it has in force, and nothing else.
    applied = _manifest_of(status, path) if write or path is not None else None
    if applied is not None and write:
        check_editable(applied, name)
    was_loaded = before["pid"] is not None

    def find() -> Process | None:
        pid = find_model(loop.status(), name)["pid"]
        return identify(pid) if pid is not None else None

    try:
        with Watch(open_machine(run_command), find) as watch:
            if before["state"] != "ready":
                carry_out(loop, name, "load", timeout=timeout)
            watch.steady()
            deadline = time.monotonic() + seconds
            problems = ask_model(loop.url, name, Role(before["role"] or "chat"), key_header())
            count_down(name, deadline, lambda: watch.holds)
        now = find_model(loop.status(), name)
        if now["state"] != "ready":
            problems = (*problems, f"it is {now['state']} at the end: somebody else unloaded it, or it ended")
        world = world_from_json(loop.call("GET", "/api/v1/world")).world
    finally:
        if not was_loaded:
            _restore(loop, name, before["residency"], timeout)
    took = None if was_loaded else now["load_seconds"]
    made = document(name, watch.result, world, seconds, took, problems, _stated_of(loop, name))
    made = replace(made, by="loop")
    if was_loaded:
        made = with_note(made, "it was loaded before: the peak of its load was not watched")
    return finished(made, applied)


def _restore(loop: "LoopClient", name: str, residency: str | None, timeout: float) -> None:
    """Unload what was not loaded before. What the manifest wants loaded stays: the loop decides about it."""
    from reconciler.cli.ask import carry_out

    if residency in ("on_demand", "transient"):
        carry_out(loop, name, "evict", timeout=timeout)


def _stated_of(loop: "LoopClient", name: str) -> int | None:
    models = loop.call("GET", "/api/v1/budget")["models"]
    return next((m["stated"] for m in models if m["name"] == name), None)


def _manifest_of(status: dict[str, Any], path: Path | None) -> "Applied":
    """Return the manifest to write into: the one the loop has, and no other."""
    from reconciler.cli.manifests import read_manifest

    applied = read_manifest(path or Path(status["manifest"]["path"]), None)
    if applied.digest != status["manifest"]["digest"]:
        raise CliError(
            f"{applied.source.path} is not what the loop has in force ({status['manifest']['path']}): "
            "name that manifest, or wait until its newest text is in force"
        )
    return applied
