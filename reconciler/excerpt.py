"""What an engine wrote, fit to be shown: one line, short, and without what is secret.

Everything of an engine's own words that leaves the machine's log files goes through here: errors to clients, status,
events, ledger, the manager's log. What the manager knows to be secret of a launch is found by its text; what only
looks like a secret, by the name before it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

from reconciler.core.launch import LaunchSpec
from reconciler.telemetry import MASK, is_secret_name

SHOWN_CHARACTERS: Final = 300
#: A secret shorter than this is no secret, and its text stands in every second word.
LEAST_CHARACTERS: Final = 4

_ESCAPE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_NAME: Final = re.compile(r"-{0,2}[A-Za-z_][\w-]*")
#: Between a name and its value: `=`, `: `, `" : `; only behind a flag blanks, only behind a quoted name a comma.
_SIGN: Final = r"""\\*["']?\s*(?::=|=>|[:=])\s*"""
_LISTED: Final = r"""\\*["']\s*,\s*"""
_BETWEEN: Final = re.compile(rf"{_SIGN}|{_LISTED}")
_BEHIND_FLAG: Final = re.compile(rf"""{_SIGN}|{_LISTED}|\\*["']?\s+(?!--)""")
_VALUE: Final = re.compile(
    r"""(?P<open>\\*["'])(?P<quoted>(?:(?!(?P=open))(?:\\.|.))*)|\[(?P<list>[^\]]*)|(?P<plain>[^\s"'\])}]+)"""
)
#: Values of these names have blanks in them: all the rest is the value, but for the word that names its kind.
_WHOLE: Final = re.compile(r"(?i)-{0,2}(?:[\w-]*[_-])?(?:authorization|cookie|passphrase)s?")
_KIND: Final = re.compile(r"(?i)(?:bearer|basic|token|digest|api-?key)\s+")
_REST: Final = re.compile(r"""[^"'\]})]+""")
#: No name, but what a mapping of Python says of one that it does not have.
_NO_SECRET: Final = frozenset({"KeyError"})
#: Secrets without a name before them: a token of a known kind, and the password in an address.
_NAMELESS: Final = (
    re.compile(r"(?i)\bbearer\s+(?P<value>[\w.~+/=-]+)"),
    re.compile(r"\b(?P<value>(?:sk|hf|gh[pousr]|xox[abp])[-_][A-Za-z0-9_-]{16,})"),
    re.compile(r"://[^/\s:@]*:(?P<value>[^@\s/]+)@"),
)


def excerpt(line: str, secrets: Iterable[str] = ()) -> str:
    """Return one line of an engine's as it may be shown: at most `SHOWN_CHARACTERS`, secrets masked.

    `secrets` are those known of the launch, as `secrets_of` returns them.

    >>> excerpt("unknown option: --api-key hunter2"), excerpt("got Authorization: Bearer a b", ["nter"])
    ('unknown option: --api-key ***', 'got Authorization: Bearer ***')
    """
    plain = "".join(c if c.isprintable() else " " for c in _ESCAPE.sub("", line))
    return masked(" ".join(hide(plain, secrets).split()))[:SHOWN_CHARACTERS]


def masked(line: str, secrets: Iterable[str] = ()) -> str:
    """Return one line of an engine's as it is, but for what is secret in it.

    >>> masked("  argv: --api-key hunter2  --port 9")
    '  argv: --api-key ***  --port 9'
    """
    text = hide(line, secrets)
    at = 0
    parts = []
    for begin, end in _spans(text):
        parts += [text[at:begin], MASK]
        at = end
    return "".join([*parts, text[at:]])


def masked_arguments(words: Sequence[str], secrets: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a command line as it may be shown.

    >>> masked_arguments(["serve", "--api-key", "a b", "--hf-token=x", "-p", "9"])
    ('serve', '--api-key', '***', '--hf-token=***', '-p', '9')
    """
    known = frozenset(secrets)
    return tuple(
        MASK if announced and not word.startswith("--") else masked(word, known)
        for word, announced in _announced(words)
    )


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a text with every known secret replaced, the longest first; nothing else is changed."""
    for secret in sorted(_written(secrets), key=lambda s: (-len(s), s)):
        text = text.replace(secret, MASK)
    return text


def secrets_of(spec: LaunchSpec | None) -> frozenset[str]:
    """Return the texts that are secret of a launch: what stands under secret names in its arguments and variables."""
    if spec is None:
        return frozenset()
    found: set[str] = set()
    for words in (spec.command, spec.args):
        found.update(_of_arguments(words))
    for name, value in spec.env:
        found.update([value] if is_secret_name(name) else _of_line(value))
    # A list of keys, and a key behind the word that names its kind, are secrets part by part.
    for value in sorted(found):
        found.update(part.strip() for part in value.split(","))
        found.add(_KIND.sub("", value, count=1))
    return frozenset(value for value in found if len(value) >= LEAST_CHARACTERS and value != MASK)


def _of_arguments(words: Sequence[str]) -> Iterator[str]:
    for word, announced in _announced(words):
        if announced and not word.startswith("--"):
            yield word
        else:
            yield from _of_line(word)


def _announced(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Return each word, and whether the one before it is a flag with the name of a secret."""
    announced = False
    for word in words:
        yield word, announced
        announced = word.startswith("-") and "=" not in word and is_secret_name(word)


def _of_line(text: str) -> Iterator[str]:
    yield from (text[begin:end] for begin, end in _spans(text))


def _written(secrets: Iterable[str]) -> set[str]:
    """Return the secrets as they may stand in a line: as they are, in JSON, and in an address."""
    found = {secret for secret in secrets if len(secret) >= LEAST_CHARACTERS}
    for secret in sorted(found):
        found |= {
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            quote(secret, safe=""),
        }
    return found


def _spans(text: str) -> list[tuple[int, int]]:
    """Return where values of secret names, and secrets without a name, begin and end; sorted, none within another."""
    found = [*_named(text), *(m.span("value") for pattern in _NAMELESS for m in pattern.finditer(text))]
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(span for span in found if span[0] < span[1]):
        if spans and begin < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((begin, end))
    return spans


def _named(text: str) -> Iterator[tuple[int, int]]:
    for name in _NAME.finditer(text):
        if name[0] in _NO_SECRET or not is_secret_name(name[0]):
            continue
        between = (_BEHIND_FLAG if name[0].startswith("-") else _BETWEEN).match(text, name.end())
        if between is not None and (span := _value(text, name[0], between.end())) is not None:
            yield span


def _value(text: str, name: str, at: int) -> tuple[int, int] | None:
    """Return where the value that begins at `at` begins and ends, its quotes left out; None = there is none."""
    value = _VALUE.match(text, at)
    if value is None:
        return None
    begin, end = value.span(value.lastgroup or 0)
    kind = _KIND.match(text, begin)
    if value.lastgroup == "plain" and (kind is not None or _WHOLE.fullmatch(name)):
        rest = _REST.match(text, begin)
        end = rest.end() if rest is not None else end
    if kind is not None and kind.end() < end:
        begin = kind.end()
    return begin, end
