"""`${env:NAME}` and `${env:NAME:-default}`: the only things in a manifest that are replaced by something else."""

import re
from collections.abc import Mapping

_EXPANSION = re.compile(r"(\$?)\$\{env:([^}:]*)(?::-([^}]*))?(\}|.|$)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ExpandError(ValueError):
    """An expansion is badly written, or its variable is not set. `offset` is where it begins; no value is named."""

    def __init__(self, offset: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message
        self.hint = hint


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with its expansions replaced. The default counts where the variable is not set or is empty.

    What a variable holds is put in as it is, never expanded or split again. `$${env:X}` stands for `${env:X}`.
    Raises ExpandError.
    """
    return _EXPANSION.sub(lambda match: _replacement(match, environ), text)


def variables(text: str) -> list[str]:
    """Return the names of the variables that `text` stands for, in order."""
    return [match[2] for match in _EXPANSION.finditer(text) if not match[1]]


def _replacement(match: re.Match[str], environ: Mapping[str, str]) -> str:
    escape, name, default, end = match.groups()
    if escape:
        return match[0][1:]
    if end != "}" or not _NAME.fullmatch(name):
        raise ExpandError(
            match.start(), "this is not a complete ${env:NAME}", "write ${env:NAME} or ${env:NAME:-default}"
        )
    value = environ.get(name)
    if value:
        return value
    if default is not None:
        return str(default)
    if value is None:
        raise ExpandError(
            match.start(),
            f"the environment variable {name} is not set",
            f"set it, or give a default: ${{env:{name}:-default}}",
        )
    return value
