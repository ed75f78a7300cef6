"""A matrix: combinations of models that may be loaded together, in its own small language of `&`, `|`, `()`, `+set`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.problems import nearest
from reconciler.migrate.finding import Kind
from reconciler.migrate.llama_swap.values import Section

_KNOWN: Final = frozenset({"vars", "evict_costs", "sets"})
_TOKEN: Final = re.compile(r"\s*(?:([&|()+])|([A-Za-z0-9._:/@-]+))")
#: Combinations of one matrix at most; llama-swap itself has no bound.
_MOST: Final = 20_000
#: Far from where Python gives up.
_DEEPEST: Final = 50

#: `+undefined` stands for the models that no set names.
_REST: Final = "undefined"

Combinations = frozenset[frozenset[str]]


class SetError(ValueError):
    """A set cannot be read; the message says why."""


def read(section: Section, models: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Return the combinations of `section.matrix`, sorted; what is wrong is noted."""
    matrix = section.section("matrix")
    if matrix is None:
        return ()
    matrix.dead(_KNOWN)
    names = _names(matrix, models)
    _costs(matrix, names)
    sets = matrix.section("sets")
    if sets is None or not sets.node.items:
        matrix.say(Kind.ERROR, "sets", "a matrix needs at least one set")
        return ()
    sources = {name: sets.text(name) for name in sets.node.items}
    reader = _Reader(sources, names)
    found: set[frozenset[str]] = set()
    for name in sources:
        try:
            found |= reader.combinations(name)
        except SetError as error:
            sets.say(Kind.ERROR, name, str(error))
    return tuple(sorted((each for each in found if each), key=sorted))


def _names(matrix: Section, models: Sequence[str]) -> dict[str, str]:
    """Return what each word of a set stands for: a short name, or a model's own."""
    names = {model: model for model in models}
    short = matrix.section("vars")
    for name in short.node.items if short else ():
        model = short.text(name) if short else ""
        if model in models:
            names[name] = model
        elif short is not None:
            near = nearest(model, models)
            advice = f"did you mean {near}?" if near else "delete it, or add the model"
            short.say(Kind.ERROR, name, f"there is no model {quoted(model)}", advice)
    return names


def _costs(matrix: Section, names: Mapping[str, str]) -> None:
    costs = matrix.section("evict_costs")
    for name in costs.node.items if costs else ():
        if costs is None:
            continue
        if name not in names:
            costs.say(Kind.ERROR, name, f"there is no model or short name {quoted(name)}")
        elif (cost := costs.number(name)) is not None:
            what = (
                f"{cost} times as costly to evict: reconcile measures what a reload costs, and goes by that"
            )
            costs.say(
                Kind.DIFFERS, name, what, f"models.{names[name]}.priority, if it must stay whatever it costs"
            )


@dataclass(slots=True)
class _Reader:
    sources: Mapping[str, str]
    names: Mapping[str, str]
    done: dict[str, Combinations] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    #: Parentheses and sets that are read at this moment, one within the other.
    depth: int = 0

    @contextmanager
    def within(self) -> Iterator[None]:
        """Go one deeper. Raises SetError where nobody means it any more."""
        if self.depth == _DEEPEST:
            raise SetError(f"parentheses and sets stand in each other more than {_DEEPEST} deep")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def combinations(self, name: str) -> Combinations:
        """Return the combinations of a set. Raises SetError."""
        if name in self.open:
            raise SetError(f"the set refers to itself: {' -> '.join([*self.open, name])}")
        if name not in self.done:
            self.open.append(name)
            try:
                with self.within():
                    self.done[name] = _Parser(_tokens(self.sources[name]), self).whole()
            finally:
                self.open.pop()
        return self.done[name]

    def rest(self) -> Combinations:
        """Return each model that no set names, by itself; nothing at all where there is none."""
        named = {
            self.names[word] for text in self.sources.values() for word in _leaves(text) if word in self.names
        }
        left = set(self.names.values()) - named
        return frozenset(frozenset({model}) for model in left) or frozenset({frozenset()})

    def named(self, word: str) -> Combinations:
        if word not in self.names:
            near = nearest(word, self.names)
            raise SetError(
                f"there is no model or short name {quoted(word)}"
                + (f"; did you mean {near}?" if near else "")
            )
        return frozenset({frozenset({self.names[word]})})


def _leaves(text: str) -> list[str]:
    tokens = _tokens(text)
    return [word for before, word in zip(["", *tokens], tokens, strict=False) if before != "+"]


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SetError(
                f"{quoted(text[at:].strip()[:1])} is no part of a set: write &, |, (, ), +SET and names"
            )
        found.append(match[1] or match[2])
        at = match.end()
    return found


@dataclass(slots=True)
class _Parser:
    tokens: list[str]
    reader: _Reader
    at: int = 0

    def whole(self) -> Combinations:
        found = self.either()
        if self.at < len(self.tokens):
            raise SetError(f"{quoted(self.tokens[self.at])} is not expected there")
        return found

    def either(self) -> Combinations:
        found = self.both()
        while self.take("|"):
            found |= self.both()
        return found

    def both(self) -> Combinations:
        found = self.one()
        while self.take("&"):
            other = self.one()
            if len(found) * len(other) > _MOST:
                raise SetError(f"it stands for more than {_MOST:,} combinations")
            found = frozenset(a | b for a in found for b in other)
        return found

    def one(self) -> Combinations:
        if self.take("("):
            with self.reader.within():
                found = self.either()
            if not self.take(")"):
                raise SetError("a ( is never closed")
            return found
        plus = self.take("+")
        word = self.tokens[self.at] if self.at < len(self.tokens) else ""
        if not word or word in "&|()+":
            raise SetError("a name is missing")
        self.at += 1
        if plus and word == _REST and word not in self.reader.sources:
            return self.reader.rest()
        if plus and word not in self.reader.sources:
            raise SetError(f"there is no set {quoted(word)}")
        return self.reader.combinations(word) if plus else self.reader.named(word)

    def take(self, token: str) -> bool:
        there = self.at < len(self.tokens) and self.tokens[self.at] == token
        self.at += there
        return there
