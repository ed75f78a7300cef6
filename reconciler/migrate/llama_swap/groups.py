"""Groups: read, checked, and completed with the hidden one that llama-swap puts all others in."""

from collections.abc import Iterator, Sequence
from typing import Final

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.problems import nearest
from reconciler.migrate.finding import Kind
from reconciler.migrate.llama_swap.routing import Group
from reconciler.migrate.llama_swap.values import Section

_KNOWN: Final = frozenset({"swap", "exclusive", "persistent", "members"})
#: How llama-swap calls the group of all models that are in none.
HIDDEN: Final = "(default)"


def read(section: Section, models: Sequence[str]) -> tuple[Group, ...]:
    """Return the groups of `section.groups`, and the hidden one last; notes members that are nobody, or twice there."""
    groups: list[Group] = []
    seen: dict[str, str] = {}
    whole = section.section("groups")
    for name, inner in section.sections("groups"):
        inner.dead(_KNOWN)
        group = Group(
            name,
            tuple(_members(inner, name, models, seen)),
            inner.switch("swap", True),
            inner.switch("exclusive", True),
            inner.switch("persistent", False),
            whole.mark(name) if whole else None,
        )
        groups.append(group)
    rest = tuple(sorted(set(models) - set(seen)))
    return (*groups, Group(HIDDEN, rest)) if rest else tuple(groups)


def _members(group: Section, name: str, models: Sequence[str], seen: dict[str, str]) -> Iterator[str]:
    for item in group.scalars("members"):
        member, call = item.value, group.call("members")
        if member not in models:
            near = nearest(member, models)
            advice = f"did you mean {near}?" if near else "delete it, or add the model"
            group.report.add(Kind.ERROR, item.mark, call, f"there is no model {quoted(member)}", advice)
        elif member in seen:
            where = "this group" if seen[member] == name else f"the group {seen[member]}"
            what = f"{quoted(member)} is already in {where}: llama-swap refuses the file"
            group.report.add(Kind.ERROR, item.mark, call, what, "leave it in one")
        else:
            seen[member] = name
            yield member
