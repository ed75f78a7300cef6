"""What groups, a matrix and the list of preloads become: residency, priority, and words on what differs."""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.core.words import size
from reconciler.manifest.tree import Mark
from reconciler.migrate.draft import ModelDraft
from reconciler.migrate.finding import Kind, Report
from reconciler.migrate.llama_swap.groups import HIDDEN
from reconciler.migrate.llama_swap.routing import Group, Routing

#: Above the usual, so that no other displaces it.
KEPT = "high"


def put(
    routing: Routing, drafts: Mapping[str, ModelDraft], marks: Mapping[str, Mark], report: Report
) -> None:
    """Put residency and priority into the models; note what was so before and is not now."""
    for name, draft in drafts.items():
        kept, loaded = name in routing.kept, name in routing.preload
        if loaded:
            draft.keys["residency"] = "pinned" if kept and _alone(routing, name, draft) else "warm"
            _preloaded(name, draft, marks[name], report)
        if kept and draft.keys.get("residency") != "pinned":
            draft.keys["priority"] = KEPT
    _displaced_preloads(routing, drafts, marks, report)


def _alone(routing: Routing, name: str, draft: ModelDraft) -> bool:
    """Tell whether it stays in memory whatever is asked: not even those of its own group displace it."""
    group = routing.group_of(name)
    return "idle_ttl" not in draft.keys and not (group is not None and group.swap and len(group.members) > 1)


def _preloaded(name: str, draft: ModelDraft, mark: Mark, report: Report) -> None:
    ttl = draft.keys.pop("idle_ttl", None)
    if ttl is not None:
        what = f"loaded at start, so it is wanted in memory: its idle time of {ttl} is left out"
        advice = f"residency: on_demand with idle_ttl: {ttl}, if it should rather go when nobody asks"
        report.add(Kind.DIFFERS, mark, f"models.{name}", what, advice)


def _displaced_preloads(
    routing: Routing, drafts: Mapping[str, ModelDraft], marks: Mapping[str, Mark], report: Report
) -> None:
    """Note what is loaded at start and would silently have been unloaded by the next request for another."""
    for name in routing.preload:
        others = [other for other in drafts if name in drafts and routing.unloads(other, name)]
        if others and name in drafts:
            by = listed(others, "or")
            what = f"llama-swap loads it at start and unloads it without a word as soon as {by} is asked"
            advice = "here it is warm: it gives way only for room, and comes back when there is some"
            report.add(Kind.DIFFERS, marks[name], f"models.{name}", what, advice)


def explain(
    routing: Routing, sizes: Mapping[str, int], room: int | None, fallback: Mark, report: Report
) -> None:
    """Note for each group or matrix whom it unloads although nobody may have to go. Sizes are bytes."""
    if routing.matrix is not None:
        _matrix(routing, sizes, room, report)
    for group in routing.groups:
        mark = group.mark or fallback
        if group.swap and len(group.members) > 1:
            _swapped(group, sizes, room, mark, report)
        others = _outside(group, routing)
        if group.exclusive and others:
            _exclusive(group, others, mark, report)
        if group.persistent and group.mark is not None:
            what = f"{listed(group.members)}: nobody displaces them here either (pinned, or priority {KEPT})"
            report.add(Kind.NOTE, mark, _key(group), what)


def _swapped(group: Group, sizes: Mapping[str, int], room: int | None, mark: Mark, report: Report) -> None:
    why = "are in no group, so llama-swap keeps" if group.name == HIDDEN else "are swapped: llama-swap keeps"
    what = f"{listed(group.members)} {why} one of them at a time, whatever memory there is"
    advice = f"here they stay together as long as they fit; {_fit(group.members, sizes, room)}"
    report.add(Kind.DIFFERS, mark, _key(group), what, advice)


def _fit(models: Sequence[str], sizes: Mapping[str, int], room: int | None) -> str:
    """Say which of them fit into memory together, as far as sizes are known."""
    unknown = [name for name in models if name not in sizes]
    known = sorted((name for name in models if name in sizes), key=lambda name: (sizes[name], name))
    if len(known) < 2 or room is None:
        return (
            f"of {listed(unknown)} no size is known yet" if unknown else "how much room there is is not known"
        )
    together: list[str] = []
    for name in known:
        if sum(sizes[n] for n in together) + sizes[name] > room:
            break
        together.append(name)
    if len(together) == len(models):
        return f"all of them do on this machine ({size(sum(sizes[n] for n in together))})"
    if len(together) > 1:
        return f"on this machine {listed(together)} do ({size(sum(sizes[n] for n in together))})"
    return "on this machine no two of them do, so they are swapped as before"


def _exclusive(group: Group, others: Sequence[str], mark: Mark, report: Report) -> None:
    hidden = "they are in no group, and " if group.name == HIDDEN else ""
    what = f"{hidden}asking for {listed(group.members, 'or')} makes llama-swap unload {listed(others)} without a word"
    report.add(
        Kind.DIFFERS,
        mark,
        _key(group),
        what,
        "here somebody goes only if there is no room, the least important first",
    )


def _outside(group: Group, routing: Routing) -> list[str]:
    return sorted(
        m for other in routing.groups if other is not group and not other.persistent for m in other.members
    )


def _matrix(routing: Routing, sizes: Mapping[str, int], room: int | None, report: Report) -> None:
    assert routing.matrix is not None, "asked before"
    models = sorted({name for each in routing.sets for name in each})
    apart = [
        f"{a} and {b}"
        for n, a in enumerate(models)
        for b in models[n + 1 :]
        if routing.unloads(a, b)
        and a in sizes
        and b in sizes
        and room is not None
        and sizes[a] + sizes[b] <= room
    ]
    what = f"its sets say who may stand beside whom ({len(routing.sets)} combinations); here memory says it"
    advice = "here a model goes only if there is no room"
    if apart:
        shown = "; ".join(apart[:5]) + (f"; and {len(apart) - 5} more pairs" if len(apart) > 5 else "")
        advice += f". In no set together, though both fit on this machine: {shown}"
    report.add(Kind.DIFFERS, routing.matrix, "matrix", what, advice)


def _key(group: Group) -> str:
    return "models" if group.name == HIDDEN else f"groups.{group.name}"


def listed(names: Iterable[str], word: str = "and") -> str:
    """Return names as a sentence has them, not more than a few."""
    found = list(names)
    if len(found) > 6:
        return f"{', '.join(found[:5])} {word} {len(found) - 5} more"
    return f" {word} ".join(filter(None, [", ".join(found[:-1]), found[-1]])) if found else "nobody"
