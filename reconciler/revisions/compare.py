"""Two manifests on one machine: the changes, and the plan from where the first leads to where the second does."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.core.diff import compare as table_of
from reconciler.core.plan import plan
from reconciler.core.types import Plan, Reason, Verdict, World
from reconciler.manifest.applied import Applied, Source
from reconciler.render.diff_shapes import (
    DiffDocument,
    KeyChangeDocument,
    SectionChangeDocument,
    SideDocument,
    SizeChangeDocument,
)
from reconciler.render.notes import note_lines
from reconciler.render.plan_document import account_document, git_document, step_documents, verdict_document
from reconciler.revisions.keys import KeyChange, Side
from reconciler.revisions.keys import compare as keys_of
from reconciler.revisions.settled import settled

#: Why a model could not be in memory, whoever asked for it, or is kept out of it by what the manifest itself wants.
_OUT: Final = frozenset(
    {
        *(Reason.NEVER_FITS, Reason.SIZE_UNKNOWN, Reason.MEMORY_UNKNOWN, Reason.NOT_STARTABLE),
        *(Reason.NO_ROOM, Reason.OUTRANKED, Reason.INSUFFICIENT_MEMORY, Reason.MEMORY_PRESSURE),
    }
)
_SECTIONS: Final = {"models": "model", "virtual": "virtual"}


@dataclass(frozen=True, slots=True)
class State:
    """One of the two manifests, and the world as it would find it: nothing of ours in memory but what is described."""

    applied: Applied
    side: Side
    world: World
    #: The revision it was read from; None = the files as they are.
    rev: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs, and the plan of the new manifest where the old one has had its way."""

    document: DiffDocument
    plan: Plan


def compare(old: State, new: State, now: float, *, described: bool) -> Comparison:
    """Return what differs and what would come of it. Same input, same answer."""
    before = settled(old.applied.manifest, old.world, now)
    # The machine as the old manifest leaves it, and what is known of the new one's models.
    met = replace(
        before,
        observation=replace(before.observation, preflights=new.world.observation.preflights),
    )
    after = settled(new.applied.manifest, met, now)
    made = plan(new.applied.manifest, met, now)
    was = plan(old.applied.manifest, before, now)
    then = plan(new.applied.manifest, after, now)
    changes = tuple(_sections(keys_of(old.side, new.side), old.applied, new.applied))
    document = DiffDocument(
        before=_side(old),
        after=_side(new),
        described=described,
        changes=changes,
        steps=step_documents(made),
        verdicts=tuple(verdict_document(v) for v in made.verdicts),
        account_before=account_document(was.account),
        account_after=account_document(then.account),
        sizes=tuple(_sizes(old, new, before, after, now)),
        lost=tuple(verdict_document(v) for v in _lost(was, then)),
        warnings=tuple(_warnings(old, new)),
    )
    return Comparison(document, made)


def _side(state: State) -> SideDocument:
    source: Source = state.applied.source
    return SideDocument(source.path, state.rev, git_document(source))


def _sections(changes: Iterable[KeyChange], old: Applied, new: Applied) -> Iterator[SectionChangeDocument]:
    """Yield settings first, then models, then virtual models."""
    grouped: dict[tuple[str, str], list[KeyChange]] = {}
    for change in changes:
        section = _SECTIONS.get(change.path[0], "settings")
        name = change.path[1] if section != "settings" else change.path[0]
        grouped.setdefault((section, name), []).append(change)
    was = {spec.name: spec.digest for spec in old.manifest.models}
    now = {spec.name: spec.digest for spec in new.manifest.models}
    for (section, name), found in sorted(grouped.items(), key=lambda g: (g[0][0] != "settings", g[0])):
        restarts = section == "model" and name in was and name in now and was[name] != now[name]
        yield _section(section, name, found, restarts=restarts)


def _section(section: str, name: str, found: Sequence[KeyChange], *, restarts: bool) -> SectionChangeDocument:
    skip = 1 if section == "settings" else 2
    whole = section != "settings" and len(found[0].path) == skip
    keys = tuple(KeyChangeDocument(".".join(c.path[skip:]), c.before, c.after, c.place) for c in found)
    came = whole and found[0].before is None
    return SectionChangeDocument(
        section="model" if section == "model" else "virtual" if section == "virtual" else "settings",
        name=name,
        change="added" if came else "removed" if whole else "changed",
        restarts=restarts,
        keys=keys,
    )


def _sizes(old: State, new: State, before: World, after: World, now: float) -> Iterator[SizeChangeDocument]:
    first = {row.name: row for row in table_of(old.applied.manifest, before, now).rows}
    second = {row.name: row for row in table_of(new.applied.manifest, after, now).rows}
    for name in sorted(first.keys() | second.keys()):
        was, is_ = first.get(name), second.get(name)
        yield SizeChangeDocument(
            name,
            was.size if was is not None else None,
            is_.size if is_ is not None else None,
            held_before=was is not None and was.instance is not None,
            held_after=is_ is not None and is_.instance is not None,
        )


def _lost(was: Plan, then: Plan) -> Iterator[Verdict]:
    """Yield the models that are kept out once all is done, and were not before."""
    out = {v.model for v in was.verdicts if v.reason in _OUT}
    return (v for v in then.verdicts if v.reason in _OUT and v.model not in out)


def _warnings(old: State, new: State) -> Iterator[str]:
    known = set(_said(old))
    return (line for line in _said(new) if line not in known)


def _said(state: State) -> Iterator[str]:
    yield from state.applied.warnings
    yield from note_lines(((p.model, p.notes) for p in state.world.observation.preflights), "models.")
