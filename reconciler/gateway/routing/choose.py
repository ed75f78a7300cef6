"""Virtual models: which of the models behind a name answers a request. Pure: no clock, no I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never
from urllib.parse import quote

from reconciler.gateway.routing.facts import Facts, facts_of
from reconciler.gateway.routing.states import Standing, states_of
from reconciler.manifest.applied import Rule, Strategy, Virtual, When

__all__ = ["ROUTE_HEADER", "Choice", "Facts", "Standing", "choose", "facts_of", "states_of"]

ROUTE_HEADER: Final = b"x-reconciler-route"
_UNKNOWN: Final = Standing()
_OTHERWISE: Final = "otherwise"
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that answers, and why: `auto -> coder (rule 2: code)`."""

    model: str
    why: str

    @property
    def header(self) -> tuple[bytes, bytes]:
        """The header that says so; what is not printable ASCII is percent-encoded."""
        return ROUTE_HEADER, quote(self.why, safe=_PRINTABLE).encode()


def choose(virtual: Virtual, facts: Facts, states: Mapping[str, Standing]) -> Choice:
    """Return the model that answers a request to `virtual`: of the first rule that holds, by its strategy.

    A model that cannot be loaded is passed over as long as its rule has another one.
    """
    for number, rule in enumerate(virtual.rules, 1):
        conditions = conditions_of(rule.when)
        if not all(condition.holds(facts) for condition in conditions):
            continue
        model, remark = pick(rule, states)
        said = ", ".join(condition.text for condition in conditions) or _OTHERWISE
        why = f"{virtual.name} -> {model} (rule {number}: {said}{remark})"
        return Choice(model, why)
    raise AssertionError(f"the last rule of {virtual.name!r} does not hold always")


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing a rule asks, and how it is said."""

    text: str
    holds: Callable[[Facts], bool]


def conditions_of(when: When) -> list[Condition]:
    """Return what a rule asks, the cheapest first: a fact is only found if all before it hold."""
    found: list[Condition] = []
    if (role := when.role) is not None:
        found.append(Condition(f"role {role}", lambda facts: facts.role is role))
    if (header := when.header) is not None:
        found.append(Condition(f"header {header[0]}", lambda facts: _has_header(facts, *header)))
    if (tools := when.tools) is not None:
        found.append(Condition("tools" if tools else "no tools", lambda facts: facts.tools is tools))
    if (image := when.image) is not None:
        found.append(Condition("image" if image else "no image", lambda facts: facts.image is image))
    if (least := when.min_tokens) is not None:
        found.append(Condition(f"{least} tokens or more", lambda facts: facts.tokens >= least))
    if (most := when.max_tokens) is not None:
        found.append(Condition(f"{most} tokens or fewer", lambda facts: facts.tokens <= most))
    if (code := when.code) is not None:
        found.append(Condition("code" if code else "no code", lambda facts: facts.code is code))
    return found


def pick(rule: Rule, states: Mapping[str, Standing]) -> tuple[str, str]:
    """Return the model of a rule that answers, and a remark where it is not simply the first.

    What is loading or waited for counts as in memory: to start yet another model beside it would only displace one
    of the two again.
    """
    able = [model for model in rule.use if not states.get(model, _UNKNOWN).never] or list(rule.use)
    model, remark = _by_strategy(rule.strategy, able, states)
    if able[0] != rule.use[0] and model == able[0]:
        remark = f"; {rule.use[0]} cannot be loaded"
    return model, remark


def _by_strategy(strategy: Strategy, able: Sequence[str], states: Mapping[str, Standing]) -> tuple[str, str]:
    standing = [(model, states.get(model, _UNKNOWN)) for model in able]
    match strategy:
        case Strategy.FIRST:
            found = None
        case Strategy.READY:
            ready = next((model for model, state in standing if state.ready), None)
            found = ready or next((model for model, state in standing if state.coming), None)
        case Strategy.FITS:
            found = next((m for m, s in standing if s.ready or s.coming or s.fits), None)
        case _:
            assert_never(strategy)
    if found is None or found == able[0]:
        return able[0], ""
    state = states[found]
    return found, "; ready" if state.ready else "; loading" if state.coming else "; fits"


def _has_header(facts: Facts, name: str, value: str | None) -> bool:
    values = facts.header(name)
    return bool(values) if value is None else value in values
