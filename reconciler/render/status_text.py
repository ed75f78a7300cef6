"""The status document as people read it. It is written from the JSON, so both always say the same."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconciler.render.paint import Paint, one_line, painter
from reconciler.render.plan_text import why_text
from reconciler.render.prewarm_document import prewarm_lines
from reconciler.render.traffic_text import gate_lines, lease_lines, virtual_lines
from reconciler.render.units import Scale, scale_for, span

Json = Mapping[str, Any]

STATE_COLOURS: Final = {
    "ready": "green",
    "loading": "yellow",
    "evicting": "yellow",
    "failing": "red",
    "blocked": "red",
}
#: Conditions that are bad news when true; all others are when not.
_BAD_WHEN_TRUE: Final = frozenset({"Degraded", "EvictedThenWanted", "MemoryPressure", "Stalled", "Suspect"})
#: Says what is being done, not that something is wrong.
_NEUTRAL: Final = frozenset({"Progressing"})


def status_text(status: Json, *, colour: bool = False) -> str:
    """Return the status document as text without a final newline."""
    paint = painter(colour)
    memory, scale = status["memory"], status_scale(status)
    lines = [f"reconcile {status['version']}  pid {status['pid']}  {status['url']}"]
    lines += manifest_lines(status["manifest"], paint)
    lines += [memory_line(memory, scale), *machine_lines(memory, scale), f"action   {action_text(status)}"]
    lines += [*virtual_lines(status["virtual"]), *gate_lines(status["gates"])]
    lines += [*prewarm_lines(status["prewarm"]), ""]
    lines += _table(status["models"], scale, paint)
    if held := lease_lines(status["leases"], paint):
        lines += ["", *held]
    if bad := condition_lines(status, paint):
        lines += ["", *bad]
    if status["advice"]:
        lines += ["", *(f"advice: {one_line(hint['text'])}" for hint in status["advice"])]
    return "\n".join(lines)


def status_scale(status: Json) -> Scale:
    """Return the unit of the budget, in which all memory of a status is shown."""
    memory = status["memory"]
    return scale_for([memory["budget"] if memory["budget"] is not None else memory["held"]])


def doing_text(doing: str, model: str, elapsed: float, expected: float | None) -> str:
    """Return how far an action is; what it is expected to take is a bound for all but loads."""
    what = f"saving the state of {model}" if doing == "saving" else f"{doing} {model}"
    word = "about" if doing == "loading" else "at most"
    bound = "" if expected is None else f" of {word} {expected:.0f} s"
    return f"{what}, {elapsed:.0f} s{bound}"


def action_text(status: Json) -> str:
    """Return what is in flight: `loading chat, 12 s of about 18 s`, `none`, or why the loop is halted."""
    action = status["action"]
    if action is None:
        return f"none, halted: {one_line(status['halted'])}" if status["halted"] else "none"
    return doing_text(action["doing"], action["model"], action["elapsed"], action["expected"])


def condition_is_fine(condition: Json) -> bool:
    """Return whether nobody need look at a condition."""
    if condition["type"] in _NEUTRAL:
        return True
    return bool(condition["status"] == ("False" if condition["type"] in _BAD_WHEN_TRUE else "True"))


def manifest_lines(manifest: Json, paint: Paint) -> list[str]:
    """Return the manifest in force, and what is wrong with a newer one."""
    git = manifest["git"]
    commit = f"  git {git['commit']}{'+dirty' if git['dirty'] else ''}" if git else ""
    start = f"manifest {manifest['path']}  generation {manifest['generation']}{commit}  "
    if manifest["valid"]:
        lines = [start + paint("valid", "green")]
    else:
        refused = paint("the newest text is refused", "red")
        lines = [f"{start}{refused}; this generation stays in force"]
        lines += [f"  {line}" for line in manifest["refused"]]
    return lines + [f"  warning: {one_line(w)}" for w in manifest["warnings"]]


def memory_line(memory: Json, scale: Scale) -> str:
    """Return the memory account; the first figure carries the unit."""
    labels = ("budget", "held", "reserved", "free", "available")
    text = "   ".join(f"{scale.number(memory[label])} {label}" for label in labels)
    return "memory   " + text.replace(
        " budget", f" {scale.name} budget" if memory["budget"] is not None else " budget"
    )


def machine_lines(memory: Json, scale: Scale) -> list[str]:
    """Return who holds the machine's memory, where that is known."""
    parts = memory["breakdown"]
    if parts is None:
        return []
    kernel = parts["kernel"] + parts["pools"]
    held = (
        (parts["models"], "models"),
        (parts["others"], "other programs"),
        (kernel, "kernel"),
        (parts["unattributed"], "unattributed"),
    )
    text = "   ".join(f"{scale.number(count)} {label}" for count, label in held)
    return [f"machine  {scale.size(parts['total'])} total   {text}"]


def _table(models: Sequence[Json], scale: Scale, paint: Paint) -> list[str]:
    if not models:
        return ["no models"]
    head = ("MODEL", "STATE", "RESIDENCY", "PRIORITY", "MEASURED", "REQUESTS", "LAST USED", "WHY")
    rows = [head, *(_cells(model, scale) for model in models)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(head) - 1)]
    flush_right = {3, 4}
    lines = []
    for row in rows:
        cells = []
        for n, width in enumerate(widths):
            pad = " " * (width - len(row[n]))
            text = paint(row[n], STATE_COLOURS[row[n]]) if n == 1 and row[n] in STATE_COLOURS else row[n]
            cells.append(pad + text if n in flush_right else text + pad)
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return [paint(lines[0], "bold"), *lines[1:]]


def _cells(model: Json, scale: Scale) -> tuple[str, ...]:
    measured = "-" if model["held"] == 0 else scale.size(model["held"])
    return (
        model["name"],
        model["state"],
        model["residency"] or "not in manifest",
        "-" if model["priority"] is None else str(model["priority"]),
        measured,
        requests_text(model),
        last_used_text(model),
        verdict_text(model),
    )


def requests_text(model: Json) -> str:
    """Return `1 in use, 2 waiting, 3 at the gate, 1 job, 1 lease`, or `-` when nobody asks."""
    kinds = (("active", "in use"), ("waiting", "waiting"), ("gated", "at the gate"))
    parts = [f"{model[key]} {words}" for key, words in kinds if model[key]]
    for key, thing in (("jobs", "job"), ("leases", "lease")):
        if model[key]:
            parts.append(f"{model[key]} {thing}{'s' if model[key] > 1 else ''}")
    return ", ".join(parts) or "-"


def last_used_text(model: Json) -> str:
    """Return `now`, `14m ago`, or `-` for a model that is not loaded or has served nothing since it was."""
    if model["active"] or model["gated"] or model["jobs"] or model["leases"]:
        return "now"
    return "-" if model["idle"] is None or not model["served"] else f"{span(model['idle'])} ago"


def verdict_text(model: Json) -> str:
    """Return the reason of a model's verdict with its detail."""
    verdict = model["verdict"]
    return why_text(verdict["reason"], verdict["detail"]) if verdict else "-"


def condition_lines(status: Json, paint: Paint) -> list[str]:
    """Return what is not fine, except for what the lines above already say: a refused manifest, a model not ready."""
    bad = [(_subject(c), c) for c in status["conditions"] if c["type"] != "ManifestValid"]
    bad += [
        (model["name"], c) for model in status["models"] for c in model["conditions"] if c["type"] != "Ready"
    ]
    return [_condition(name, c, paint) for name, c in bad if not condition_is_fine(c)]


def _subject(condition: Json) -> str:
    """Return whom a condition that is about no single model is about."""
    return "machine" if condition["type"] in ("Degraded", "MemoryPressure") else "manifest"


def _condition(name: str, condition: Json, paint: Paint) -> str:
    return f"{one_line(name)}: {paint(condition_text(condition), 'red')}"


def condition_text(condition: Json) -> str:
    """Return `Ready=False (LoadFailed): exit 1, for 3m`."""
    message = f": {one_line(condition['message'])}" if condition["message"] else ""
    since = span(condition["age"])
    return f"{condition['type']}={condition['status']} ({condition['reason']}){message}, for {since}"
