"""One API key a line: `KEY`, or `KEY scopes=infer,read name=phone priority=low`."""

import re
from typing import Any, Final

from pydantic_core import PydanticCustomError

from reconciler.manifest.applied import ApiKey, Scope
from reconciler.manifest.fields import KEY_PATTERN, choice, priority
from reconciler.manifest.gateway_fields import KEY_NAME_PATTERN
from reconciler.manifest.problems import nearest
from reconciler.manifest.scalars import resolve

_SETTINGS: Final = ("name", "priority", "scopes")
_SETTING = re.compile(rf"({'|'.join(_SETTINGS)})=(.*)")
_FORM: Final = "KEY scopes=infer,read name=phone priority=low; of these only the key must be there"


class KeyLineError(ValueError):
    """A line is not a key; neither text repeats anything of it that could be one."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


def parse_key_line(line: str) -> ApiKey:
    """Return the key of a line; its name is empty if it has none. Raises KeyLineError."""
    key, *words = line.split()
    if not re.fullmatch(KEY_PATTERN, key):
        raise KeyLineError("this is not a key", "a key has visible ASCII characters and no blanks")
    if _SETTING.fullmatch(key):
        raise KeyLineError("the key is missing", _FORM)
    settings: dict[str, Any] = {}
    for number, word in enumerate(words, 2):
        found = _SETTING.fullmatch(word)
        if found is None:
            # The word itself may be a key: only what it was meant to be is said.
            meant = nearest(word.partition("=")[0], _SETTINGS) if "=" in word else None
            hint = f"did you mean {meant}?" if meant else _FORM
            raise KeyLineError(f"word {number} is no setting of a key", hint)
        if found[1] in settings:
            raise KeyLineError(f"{found[1]} is there twice", _FORM)
        settings[found[1]] = _setting(found[1], found[2])
    return ApiKey(key, **settings)


def split_variable(text: str) -> list[str]:
    """Return the lines of a variable. A line without settings may hold several keys, with commas between them."""
    lines: list[str] = []
    for line in text.splitlines():
        plain = not any(_SETTING.fullmatch(word) for word in line.split())
        lines += line.split(",") if plain else [line]
    return lines


def _setting(name: str, value: str) -> object:
    """Return what a setting means. Its value may be repeated: it stands behind one of our words."""
    try:
        match name:
            case "scopes":
                return frozenset(Scope(choice(Scope)(scope)) for scope in value.split(","))
            case "priority":
                return priority(resolve(value) if value else value)
            case _:
                if re.fullmatch(KEY_NAME_PATTERN, value):
                    return value
    except PydanticCustomError as error:
        context = error.context or {}
        raise KeyLineError(f"{name}: {context['message']}", str(context["hint"])) from None
    raise KeyLineError(
        "this is not a name for a key", "letters, digits and . _ @ : - without blanks, 64 at most"
    )
