"""Names that one part of a manifest uses for another: models that summarise or stand behind a name, and gates."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from reconciler.core.launch import Role
from reconciler.manifest.applied import STANDARD_GATES, Overflow
from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.document import Document, Model
from reconciler.manifest.explain import locate, place
from reconciler.manifest.gateway_part import Gateway
from reconciler.manifest.overflow import check_overflow
from reconciler.manifest.problems import Problems, nearest
from reconciler.manifest.tree import Map, Mark
from reconciler.manifest.virtual_part import VirtualModel, WhenPart

#: Roles that can put a conversation into a few sentences.
_SUMMARIZING: Final = (Role.CHAT, Role.VISION)
Path = tuple[str | int, ...]


class _Known(NamedTuple):
    """What a name may stand for, and the models that answer no path of the data API."""

    document: Document
    routes: Mapping[str, str]
    mute: frozenset[str]


def check_references(
    document: Document, routes: Mapping[str, str], mute: frozenset[str], root: Map, problems: Problems
) -> None:
    """Note what refers to a model or a gate that is not there, or not fit for it, and rules that never hold.

    `mute` are the models whose engines answer no path of the data API.
    """
    _check_gates(document.gateway, root, problems)
    gates = _gates(document.gateway)
    for name, model in document.models.items():
        _check_gate(name, model, gates, root, problems)
        _check_summarizer(name, document, routes, root, problems)
    check_overflow(document, routes, root, problems)
    for name, part in document.virtual.items():
        _check_virtual(name, part, _Known(document, routes, mute), root, problems)


def _gates(gateway: Gateway) -> set[str]:
    removed = {name for name, entry in gateway.gates.items() if entry is None}
    return (set(STANDARD_GATES) | set(gateway.gates)) - removed


def _check_gates(gateway: Gateway, root: Map, problems: Problems) -> None:
    for name, entry in gateway.gates.items():
        path: Path = ("gateway", "gates", name)
        if name in STANDARD_GATES:
            continue
        if entry is None:
            near = nearest(name, STANDARD_GATES)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(STANDARD_GATES))}"
            problems.add(
                place(root, path), "gate", f"there is no standard gate {quoted(name)} to remove", hint
            )
        elif entry.limit is None:
            problems.add(
                place(root, path), "missing-key", 'the key "limit" is missing', "write {limit: 1}, or more"
            )


def _check_gate(name: str, model: Model, gates: set[str], root: Map, problems: Problems) -> None:
    for number, gate in enumerate(model.gate or ()):
        if gate not in gates:
            near = nearest(gate, gates)
            there = f"there are {', '.join(sorted(gates))}" if gates else "there is none"
            hint = f"did you mean {near}?" if near else f"{there}; define it under gateway.gates"
            where = _item(root, ("models", name, "gate"), number)
            problems.add(where, "gate", f"there is no gate {quoted(gate)}", hint)


def _check_summarizer(
    name: str, document: Document, routes: Mapping[str, str], root: Map, problems: Problems
) -> None:
    context = document.models[name].context
    summarizes = context.overflow is Overflow.SUMMARIZE
    if context.summarizer is None:
        if summarizes:
            message = "`overflow: summarize` needs a model that does it"
            where = place(root, ("models", name, "context", "overflow"))
            problems.add(where, "summarizer", message, "add `summarizer:` with the name of a chat model")
        return
    where = place(root, ("models", name, "context", "summarizer"))
    target = _model(context.summarizer, document, routes, where, problems)
    if target is None:
        return
    if target == name and summarizes:
        message = f"{quoted(name)} cannot summarise for itself: its context is what is full"
        problems.add(where, "summarizer", message, "name another chat model, or write `overflow: trim` here")
    elif document.models[target].role not in _SUMMARIZING:
        role = document.models[target].role.value
        problems.add(where, "summarizer", f"{quoted(target)} is no chat model (its role is {role})", "")


def _check_virtual(
    name: str,
    part: VirtualModel,
    known: "_Known",
    root: Map,
    problems: Problems,
) -> None:
    at: Path = ("virtual", name)
    always: int | None = None
    for number, rule in enumerate(part.rules):
        path: Path = (*at, "rules", number)
        _check_use(rule.use, (*path, "use"), known, root, problems)
        _check_when(rule.when, (*path, "when"), root, problems)
        if always is not None:
            _unreachable(place(root, path), f"rule {number + 1}", always, problems)
        elif not rule.when.conditions:
            always = number
    _check_use(part.use or (), (*at, "use"), known, root, problems)
    if part.use is not None and always is not None:
        _unreachable(place(root, (*at, "use")), "what `use` says here", always, problems)
    elif part.use is None and always is None:
        message = f"nobody answers requests to {quoted(name)} for which no rule holds"
        problems.add(_key(root, at), "virtual", message, "add `use: MODEL` beside `rules`")


def _check_use(
    use: tuple[str, ...],
    path: Path,
    known: "_Known",
    root: Map,
    problems: Problems,
) -> None:
    """Note names behind which there is no model, one that was named before, or one that could answer nothing."""
    seen: dict[str, str] = {}
    for number, name in enumerate(use):
        where = _item(root, path, number)
        model = _model(name, known.document, known.routes, where, problems)
        if model in seen:
            same = "" if name == seen[model] else f" (it is {quoted(seen[model])})"
            message = f"{quoted(name)} is named twice{same}: the second never answers"
            problems.add(where, "duplicate", message, "delete one of the two")
        elif model in known.mute:
            message = f"{quoted(name)} answers no path of the data API, and a virtual model no other"
            problems.add(where, "virtual", message, f"clients reach it at /upstream/{model}/")
        elif model is not None:
            seen[model] = name


def _unreachable(where: Mark, what: str, always: int, problems: Problems) -> None:
    message = f"{what} is never reached: rule {always + 1} has no condition, so it holds always"
    problems.add(where, "unreachable-rule", message, "delete one of the two, or give the first a `when`")


def _check_when(when: WhenPart, path: Path, root: Map, problems: Problems) -> None:
    if when.min_tokens is not None and when.max_tokens is not None and when.min_tokens > when.max_tokens:
        message = f"min_tokens ({when.min_tokens}) is above max_tokens ({when.max_tokens}): it never holds"
        problems.add(place(root, (*path, "min_tokens")), "range", message, "swap the two")


def _model(
    use: str, document: Document, routes: Mapping[str, str], where: Mark, problems: Problems
) -> str | None:
    """Return the model of a name or an alias; note it if there is none."""
    if use in routes:
        return routes[use]
    if use in document.virtual:
        message = f"{quoted(use)} is a virtual model: only real ones can be named here"
        problems.add(where, "virtual", message, "name a model or an alias")
        return None
    near = nearest(use, routes)
    hint = f"did you mean {near}?" if near else "name a model of `models:`, or one of their aliases"
    problems.add(where, "unknown-model", f"there is no model or alias {quoted(use)}", hint)
    return None


def _item(root: Map, path: Path, number: int) -> Mark:
    """Return the place of an item of a list, or of the one text that stands for a list."""
    node, _, whole = locate(root, (*path, number))
    return node.mark if whole else place(root, path)


def _key(root: Map, path: Path) -> Mark:
    _, key, _ = locate(root, path)
    return key.mark if key else place(root, path)
