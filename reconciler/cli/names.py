"""Near misses: what was probably meant."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.cli.output import CliError
from reconciler.render.paint import one_line


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None if none is like it."""
    by_fold = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    close = difflib.get_close_matches(name.casefold(), sorted(by_fold), n=1)
    return by_fold[close[0]] if close else None


class NoSuchModelError(CliError):
    """No model or alias has this name."""


def find_model(status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the model of a status document that has this name or alias. Raises NoSuchModelError with what there is.

    The status document of a loop of an earlier version says nothing of virtual models.
    """
    models = status["models"]
    for model in models:
        if name == model["name"] or name in model["aliases"]:
            found: Mapping[str, Any] = model
            return found
    for virtual in status.get("virtual", ()):
        if name == virtual["name"]:
            behind = ", ".join(virtual["models"])
            raise CliError(f'"{one_line(name)}" is a virtual model ({behind}): name one of them')
    names = [m["name"] for m in models]
    aliases = sorted(alias for m in models for alias in m["aliases"])
    there = f"models: {', '.join(names) or 'none'}" + (f"; aliases: {', '.join(aliases)}" if aliases else "")
    guess = near(name, names + aliases)
    rest = f'did you mean "{guess}"? ({there})' if guess else there
    raise NoSuchModelError(f'no model or alias is called "{one_line(name)}"; {rest}')
