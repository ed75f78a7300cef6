"""Everything about one model, as people read it; written from the status document."""

from collections.abc import Iterable
from typing import Final

from reconciler.core.crashes import FailureKind, remedy
from reconciler.render.advice_text import room_lines, worth_lines
from reconciler.render.health_document import health_text
from reconciler.render.paint import one_line, painter
from reconciler.render.status_text import (
    STATE_COLOURS,
    Json,
    action_text,
    condition_text,
    last_used_text,
    requests_text,
    verdict_text,
)
from reconciler.render.traffic_text import gate_texts, lease_texts, queue_text
from reconciler.render.units import size, span

#: Lines that come with an error text of their own, often the one that `why` has just given.
_REPEATERS: Final = ("failures", "condition")
#: Characters from which on a text is not repeated.
_LONG: Final = 16
#: Seconds that would be shown as none at all.
SOON: Final = 0.05
#: How models are kept that are loaded when somebody asks for them, and not before.
_ON_REQUEST: Final = ("on_demand", "transient")


def explain_text(status: Json, name: str, advice: Json | None = None, *, colour: bool = False) -> str:
    """Return all that the status document says of one model, and the advice on it, where there is some.

    Raises KeyError for a name the status does not have.
    """
    model = next((m for m in status["models"] if m["name"] == name), None)
    if model is None:
        raise KeyError(name)
    paint = painter(colour)
    state = paint(model["state"], STATE_COLOURS.get(model["state"], "dim"))
    lines = [f"{paint(name, 'bold')}  {state}"]
    said = _once(_explained(status, model, advice), _reasons(model))
    lines += [f"  {label:<12} {text}" for label, text in said if text]
    return "\n".join(lines)


def _reasons(model: Json) -> list[str]:
    """Return the long texts that more than one fact of a model may repeat, the longest first."""
    verdict = model["verdict"]
    texts = [
        verdict["detail"] if verdict else "",
        model["last_error"],
        *(c["message"] for c in model["conditions"]),
    ]
    return sorted({t for t in map(one_line, texts) if len(t) >= _LONG}, key=lambda t: (-len(t), t))


def _once(lines: Iterable[tuple[str, str]], reasons: list[str]) -> Iterable[tuple[str, str]]:
    """Put `see above` where a long text has been shown already."""
    seen: set[str] = set()
    for label, text in lines:
        short = text
        for reason in reasons:
            if reason in seen and label in _REPEATERS:
                short = short.replace(reason, "see above")
        seen.update(reason for reason in reasons if reason in short)
        yield label, short


def _explained(status: Json, model: Json, advice: Json | None) -> Iterable[tuple[str, str]]:
    verdict = model["verdict"]
    yield "why", verdict_text(model) if verdict else ""
    if verdict and verdict["outcome"] == "blocked" and not model["failures"]:
        yield "until", _until(model)
    if advice is not None:
        yield from room_lines(advice)
        yield from worth_lines(advice)
    action = status["action"]
    if action and action["model"] == model["name"]:
        yield "action", action_text(status)
    yield "wanted", _wanted(model)
    yield "engine", f"{model['engine']}, role {model['role']}" if model["engine"] else ""
    yield "aliases", ", ".join(model["aliases"])
    yield "size", _size(model)
    yield "estimate", _estimate(model["memory"])
    yield "process", f"pid {model['pid']}, port {model['port']}" if model["pid"] else ""
    yield "requests", _requests(model)
    yield "health", health_text(model["health"])
    yield "queue", queue_text(model)
    for gate in gate_texts(status, model):
        yield "gate", gate
    for lease in lease_texts(status, model["name"]):
        yield "lease", lease
    yield "last used", last_used_text(model) if model["active"] or model["served"] else ""
    yield "state", _saved(model["saved"])
    yield "last load", f"took {span(model['load_seconds'])}" if model["load_seconds"] is not None else ""
    yield "failures", _failures(model)
    yield "what helps", _remedy(model)
    for condition in model["conditions"]:
        yield "condition", condition_text(condition)
    for note in model["notes"]:
        yield "note", one_line(note)
    yield "log", model["log"] or ""


def _requests(model: Json) -> str:
    now = requests_text(model)
    now = "none" if now == "-" else now
    oldest = f", oldest {span(model['oldest_wait'])}" if model["oldest_wait"] is not None else ""
    served = f"; {model['served']} served since it was loaded" if model["state"] == "ready" else ""
    return f"{now}{oldest}{served}"


def _until(model: Json) -> str:
    if model["retry_in"] is not None:
        return f"tried again in {span(model['retry_in'])}"
    if model["verdict"] is not None and model["verdict"]["reason"] == "NotStartable":
        return "tried again when what it lacks is there, which is looked at every 10 s at the latest"
    return "tried again when the memory, the requests or the manifest change"


def _wanted(model: Json) -> str:
    if model["residency"] is None:
        return "not in the manifest any more"
    return f"{model['residency']}, priority {model['priority']}"


def _size(model: Json) -> str:
    if model["held"] == 0:
        return f"would need {size(model['size'])}"
    if model["state"] == "asleep":
        return f"holds {size(model['held'])} asleep; would need {size(model['size'])}"
    mapped = f", {size(model['warm'])} of it mapped weights" if model["warm"] else ""
    back = model["memory"]["releasable"]
    gives = f"; {size(back)} would come back" if back is not None and back != model["held"] else ""
    return f"measured {size(model['held'])}{mapped}; charged {size(model['size'])}{gives}"


def _estimate(memory: Json) -> str:
    """Return what the size was worked out from, kind by kind, and the most that was ever measured."""
    parts = memory["estimate"]
    kinds = ("weights", "context", "compute", "cache", "overhead", "loading")
    known = [(kind, parts[kind]) for kind in kinds if parts[kind] != 0] if parts else []
    texts = [f"{kind} {size(count)}" for kind, count in known]
    if memory["peak"]:
        texts.append(f"most ever measured {size(memory['peak'])}")
    return ", ".join(texts)


def _saved(saved: Json | None) -> str:
    """Return what is kept of its conversations, and what became of that last."""
    if saved is None:
        return ""
    tokens = f"{saved['tokens']} tokens, " if saved["tokens"] is not None else ""
    kept = f"kept: {tokens}{size(saved['bytes'])}, saved {span(saved['age'])} ago" if saved["bytes"] else ""
    return "; ".join(text for text in (kept, one_line(saved["note"])) if text) or "nothing is kept yet"


def _failures(model: Json) -> str:
    if not model["failures"]:
        return ""
    error = f", the last: {one_line(model['last_error'])}" if model["last_error"] else ""
    again = _again(model)
    kind = f" ({model['failure']})" if model["failure"] else ""
    return f"{model['failures']} in a row{kind}{error}{f'; tried again {again}' if again else ''}"


def _remedy(model: Json) -> str:
    """Return what helps a model that fails, unless the sentence on why it stays out ends with that."""
    verdict = model["verdict"]
    if not model["failures"] or model["failure"] is None or (verdict and verdict["reason"] == "GivenUp"):
        return ""
    return remedy(FailureKind(model["failure"]), model["name"])


def _again(model: Json) -> str:
    """Return when a model is tried again after a failure; nobody tries one that nobody wants."""
    verdict, wait = model["verdict"], model["retry_in"]
    due = wait is None or wait < SOON
    if verdict and verdict["outcome"] == "cold" and model["residency"] in _ON_REQUEST:
        return "at the next request" if due else f"at the next request, in {span(wait)} at the earliest"
    if wait is None:
        return ""
    return "now" if due else f"in {span(wait)}"
