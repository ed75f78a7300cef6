"""A command written as one text: split into words as a POSIX shell would, and nothing else that a shell does.

`$HOME`, `~`, `*`, `;` and `|` stay what they are. A line break is a blank, with or without a backslash before it.
"""

import re
from typing import Final


class SplitError(ValueError):
    """The text cannot be split. `line` counts from 0 within it."""

    def __init__(self, line: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.hint = hint


_BLANK = " \t\n"
_BLANKS_TO_LINE_END: Final = re.compile(r"[ \t]+(\n|\Z)")
#: In double quotes a backslash protects only these.
_PROTECTED = '$`"\\\n'


def split(text: str) -> list[str]:
    """Return the words of `text`. A line whose first character is `#`, outside quotes, is left out.

    Raises SplitError for an unclosed quote, a lone backslash at the end, and for a `#` that begins a word in the
    middle of a line: a shell would drop the rest of the line, and whoever wrote it may have meant either.
    """
    return _Splitter(text).words()


class _Splitter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def words(self) -> list[str]:
        found: list[str] = []
        while self.skip_blanks():
            found.append(self.word())
        return found

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at)

    def skip_blanks(self) -> bool:
        """Move to the next word; tell whether there is one."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in _BLANK:
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif text[self.at] == "\\" and _BLANKS_TO_LINE_END.match(text, self.at + 1):
                raise SplitError(
                    self.line(self.at),
                    "a backslash at the end of a line has blanks behind it: they would become an argument",
                    "remove the blanks behind the backslash",
                )
            elif text[self.at] == "#":
                self.skip_comment()
            else:
                return True
        return False

    def skip_comment(self) -> None:
        start = self.text.rfind("\n", 0, self.at) + 1
        if self.text[start : self.at].strip(" \t"):
            raise SplitError(
                self.line(self.at),
                "a # begins a word in the middle of a line",
                "put the comment on a line of its own, or quote the word: '#...'",
            )
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end + 1

    def word(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text) and (char := self.text[self.at]) not in _BLANK:
            if char == "'":
                parts.append(self.single_quoted())
            elif char == '"':
                parts.append(self.double_quoted())
            elif char == "\\":
                parts.append(self.escaped())
            else:
                parts.append(char)
                self.at += 1
        return "".join(parts)

    def single_quoted(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise SplitError(
                self.line(self.at), "a ' is never closed", 'close it, or write "\'" for the character'
            )
        start, self.at = self.at + 1, end + 1
        return self.text[start:end]

    def double_quoted(self) -> str:
        start = self.at
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            following = self.text[self.at + 1 : self.at + 2]
            if char == '"':
                self.at += 1
                return "".join(parts)
            if char == "\\" and following and following in _PROTECTED:
                parts.append("" if following == "\n" else following)
                self.at += 2
            else:
                parts.append(char)
                self.at += 1
        raise SplitError(self.line(start), 'a " is never closed', "close it, or write '\"' for the character")

    def escaped(self) -> str:
        following = self.text[self.at + 1 : self.at + 2]
        if not following:
            raise SplitError(
                self.line(self.at), "nothing follows the last backslash", "delete it, or double it"
            )
        self.at += 2
        return "" if following == "\n" else following
