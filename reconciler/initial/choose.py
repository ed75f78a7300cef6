"""What a first manifest says of each model: engine, context, priority. Every figure comes from the files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.core import book
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Memory, Watermarks
from reconciler.core.types import Manifest, Preflight
from reconciler.core.words import size as size_text
from reconciler.engines import registry
from reconciler.initial import naming
from reconciler.initial.found import LeftOut, Model
from reconciler.initial.serving import Here, candidates, servers

#: Lengths of context that are tried, in tokens: the most that a chat is given unasked, then half of it and so on.
_LENGTHS: Final = (32768, 16384, 8192, 4096, 2048)
#: Enough for most conversations; of passages to be found again more only makes the buffers larger.
_USUAL: Final = 8192
#: The part of the budget that a model may take with more than that: half.
_SHARE: Final = 2
#: Of the budget: a model that is pinned may take a quarter, since nothing ever gets that memory back.
_PINNED_SHARE: Final = 4
_SMALL: Final = frozenset({Role.EMBEDDING, Role.RERANK})


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of the manifest."""

    name: str
    model: Model
    engine: str
    #: `context.max_tokens`; None = it has none, or its own length is taken.
    tokens: int | None
    #: Bytes once loaded, and while loading, as the files say.
    steady: int
    need: int
    priority: str = "medium"
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is written down, and what is not."""

    choices: tuple[Choice, ...]
    left_out: tuple[LeftOut, ...]
    #: Bytes of the machine, and those that models may hold together; None = could not be read.
    total: int | None
    budget: int | None


class CannotPinError(Exception):
    """A model cannot be pinned; the message says why."""


def choose(models: Sequence[Model], here: Iterable[Here], memory: Memory, pin: Sequence[str] = ()) -> Chosen:
    """Return what a manifest for this machine says of `models`, sorted by name. Reads their files.

    `pin` names those that are to be pinned, as the manifest calls them. Raises CannotPinError.
    """
    manifest = Manifest((), watermarks=Watermarks())
    budget = book.budget(manifest, memory)
    known = frozenset(engine.name for engine in here)
    choices: list[Choice] = []
    left_out: list[LeftOut] = []
    for name, model in zip(naming.names([m.path for m in models]), models, strict=True):
        found = _entry(name, model, candidates(model, known), budget)
        if isinstance(found, Choice):
            choices.append(found)
        else:
            left_out.append(LeftOut(model.path, found))
    choices.sort(key=lambda c: c.name)
    pinned = _with_pins(choices, pin, budget)
    return Chosen(
        tuple(_with_priorities(pinned, budget)), tuple(left_out), book.total(manifest, memory), budget
    )


def _entry(name: str, model: Model, engines: Sequence[str], budget: int | None) -> Choice | str:
    """Return the entry for a model with the first engine that serves it, or why there is none."""
    if not engines:
        return _nobody(model)
    reasons = []
    for engine in engines:
        found = _with_engine(name, model, engine, budget)
        if isinstance(found, Choice):
            return found
        reasons.append(found if len(servers(model.kind, model.role)) == 1 else f"with {engine}: {found}")
    return "; ".join(reasons)


def _nobody(model: Model) -> str:
    known = servers(model.kind, model.role)
    what = f"{model.kind.value} for {model.role.value}"
    if not known:
        return f"no engine serves {what}"
    return f"no engine that serves {what} is here ({', '.join(known)}): install one, then run init again"


def _with_engine(name: str, model: Model, engine: str, budget: int | None) -> Choice | str:
    least = ""
    for spec in _launches(name, model, engine):
        found = registry.get(engine).foreseen(spec)
        if found.steady is None:
            return found.message or "nobody knows what it takes"
        choice = Choice(name, model, engine, spec.context_tokens, found.steady, _need(found))
        # More than usual only where a second model fits beside it.
        share = _SHARE if (spec.context_tokens or 0) > _USUAL else 1
        if budget is None or choice.need <= budget // share:
            return choice
        least = _too_large(choice, budget)
    return least


def _need(found: Preflight) -> int:
    return max(found.steady or 0, found.peak or 0)


def _too_large(choice: Choice, budget: int) -> str:
    with_context = f" with {choice.tokens} tokens of context" if choice.tokens else ""
    return f"it does not fit alone: it needs {size_text(choice.need)}{with_context}, models may use {size_text(budget)}"


def _launches(name: str, model: Model, engine: str) -> Iterator[LaunchSpec]:
    """Yield the launches that are tried, the one with the longest context first."""
    spec = LaunchSpec(
        name,
        engine,
        weights=str(model.path),
        role=model.role,
        cwd=str(model.path.parent),
        projector=str(model.projector) if model.projector else None,
    )
    for tokens in _lengths(model):
        longer = replace(spec, context_tokens=tokens)
        if any(found.path == ("context", "max_tokens") for found in registry.get(engine).check(longer)):
            yield spec
            return
        yield longer


def _lengths(model: Model) -> tuple[int, ...]:
    if model.role in _SMALL:
        return (min(model.length or _USUAL, _USUAL),)
    if model.length is None:
        return tuple(length for length in _LENGTHS if length <= _USUAL)
    shorter = [length for length in _LENGTHS if length < model.length]
    return (model.length, *shorter) if model.length <= _LENGTHS[0] else tuple(shorter)


def _with_pins(choices: Sequence[Choice], pin: Sequence[str], budget: int | None) -> list[Choice]:
    """Return the choices with those pinned that are to be. Raises CannotPinError with all that is wrong."""
    by_name = {choice.name: choice for choice in choices}
    wrong = [f'there is no model "{name}" to pin' for name in sorted({*pin} - by_name.keys())]
    for name in sorted({*pin} & by_name.keys()):
        need = by_name[name].need
        if budget is not None and need > budget // _PINNED_SHARE:
            limit = size_text(budget // _PINNED_SHARE)
            wrong.append(
                f"{name} is not small enough to be pinned: it needs {size_text(need)}, and a quarter of what models "
                f"may use is {limit}; write `residency: pinned` by hand if you mean it"
            )
    pinned = sum(by_name[name].need for name in {*pin} & by_name.keys())
    largest = max((c for c in choices if c.name not in pin), key=lambda c: c.need, default=None)
    if not wrong and pinned and budget is not None and largest is not None and pinned + largest.need > budget:
        wrong.append(
            f"beside what is to be pinned ({size_text(pinned)}) {largest.name} would never fit: it needs "
            f"{size_text(largest.need)}, and models may use {size_text(budget)}"
        )
    if wrong:
        raise CannotPinError("\n".join(wrong))
    return [replace(choice, pinned=choice.name in pin) for choice in choices]


def _with_priorities(choices: Sequence[Choice], budget: int | None) -> Iterator[Choice]:
    """Yield the choices; what others wait for in the middle of their work comes first, where everybody has room.

    A lower priority never displaces a higher one. So the small ones come first only if each of the others fits beside
    all of them, and else nobody does.
    """
    small = sum(choice.need for choice in choices if choice.model.role in _SMALL or choice.pinned)
    largest = max((c.need for c in choices if c.model.role not in _SMALL and not c.pinned), default=0)
    first = budget is not None and small + largest <= budget
    for choice in choices:
        yield replace(choice, priority="high") if first and choice.model.role in _SMALL else choice
