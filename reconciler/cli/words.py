"""What a word that we said, or a key of the manifest, means."""

import textwrap
from dataclasses import asdict, dataclass
from typing import Final

from reconciler.glossary import Word, find
from reconciler.manifest import reference

WIDTH: Final = 96


@dataclass(frozen=True, slots=True)
class Meaning:
    """One meaning of a word."""

    word: str
    #: What kind of word it is.
    kind: str
    means: str
    #: What to do; empty = nothing has to be done.
    helps: str
    #: The page of the documentation that has the rest.
    page: str

    def document(self) -> dict[str, str]:
        """Return it for programs."""
        return asdict(self)

    def text(self) -> str:
        """Return it for people."""
        lines = [f"{self.word}: {self.kind}"]
        for head, said in (("", self.means), ("what helps: ", self.helps), ("more: ", self.page)):
            if said:
                lines += textwrap.wrap(head + said, WIDTH, initial_indent="  ", subsequent_indent="  ")
        return "\n".join(lines)


def meanings(text: str) -> list[Meaning]:
    """Return what a text means: a word of the glossary, or a key of the manifest; nothing if it is neither."""
    found = [_of_word(word) for word in find(text)]
    key = None if found else reference.find(text, reference.keys())
    return [_of_key(key)] if key else found


def _of_word(word: Word) -> Meaning:
    return Meaning(word.name, word.kind.value, word.means, word.helps, f"docs/{word.page}")


def _of_key(key: reference.Key) -> Meaning:
    default = (
        "; it is required" if key.required else f"; default: {key.default}" if key.default is not None else ""
    )
    takes = key.takes.replace("`", "")
    helps = "" if takes == "mapping" else f"write {takes}{default}"
    return Meaning(key.path, "a key of the manifest", key.means, helps, "docs/reference.md")
