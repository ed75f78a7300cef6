"""Keys and tokens that were written down: a manifest is made for git, so a variable takes their place."""

import re
from dataclasses import dataclass, field
from typing import Final

from reconciler.manifest.diagnostics import looks_secret

#: In prose "keys are" is no secret: only what is set to something, follows a flag, or looks like a token.
_WRITTEN: Final = re.compile(
    r"""(?ix)
    ( [\w-]*(?:key|token|secret|passw(?:or)?d)[\w-]*["']?\s*[:=]\s*["']?
    | --?[\w-]*(?:key|token|secret|password)\s+ )
    ([^\s"',\]\[{}]+)"""
)
_TOKEN: Final = re.compile(r"\b(?:sk|hf|ghp|gsk|xai|nvapi)[-_][A-Za-z0-9_-]{4,}")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)
_EXPANDED: Final = re.compile(r"\$\{env:[^}]*\}")


def veiled(text: str) -> str:
    """Return a text with what looks like a secret in it replaced by asterisks.

    >>> veiled("keys are here: --api-key abc123, HF_TOKEN=hf_0123456, max_tokens: 5")
    'keys are here: --api-key ***, HF_TOKEN=***, max_tokens: 5'
    """

    def hide(found: re.Match[str]) -> str:
        name = found[1].strip().rstrip("=:\"' ")
        kept = _EXPANDED.match(found[2]) or not looks_secret(name)
        return found[0] if kept else f"{found[1]}***"

    return _TOKEN.sub("***", _WRITTEN.sub(hide, text))


@dataclass(slots=True)
class Secrets:
    """The values that were taken out, by the variable that has to hold each."""

    values: dict[str, str] = field(default_factory=dict, repr=False)

    def variable(self, name: str, value: str) -> str:
        """Return `${env:NAME}` for a secret value; the same name with another value gets a number behind it."""
        base = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "SECRET"
        base = f"_{base}" if base[0].isdigit() else base
        chosen, number = base, 1
        while self.values.get(chosen, value) != value:
            number += 1
            chosen = f"{base}_{number}"
        self.values[chosen] = value
        return f"${{env:{chosen}}}"

    def words(self, owner: str, words: list[str]) -> tuple[list[str], list[str]]:
        """Return words with the secrets in them replaced, and the variables that were made for it.

        A secret is what follows `--api-key` and its like, and what a word like `HF_TOKEN=...` sets.
        """
        made: list[str] = []
        result: list[str] = []
        for place, word in enumerate(words):
            before = words[place - 1] if place else ""
            flag, equals, value = word.partition("=")
            if (
                before.startswith("-")
                and "=" not in before
                and looks_secret(before)
                and not word.startswith("-")
            ):
                word = self._taken(f"{owner}_{before}", word, made)
            elif word.startswith("-") and equals and looks_secret(flag):
                word = f"{flag}={self._taken(f'{owner}_{flag}', value, made)}"
            elif (found := _ASSIGNMENT.fullmatch(word)) and looks_secret(found[1]):
                word = f"{found[1]}={self._taken(found[1], found[2], made)}"
            result.append(word)
        return result, made

    def _taken(self, name: str, value: str, made: list[str]) -> str:
        if not value or _EXPANDED.search(value):
            return value
        put = self.variable(name, value)
        made.append(put[6:-1])
        return put
