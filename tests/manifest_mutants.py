"""Manifests with something wrong in them, drawn from a seed: what a slip of a hand, an editor or a disk makes of one.

`PYTHONPATH=tests python -m manifest_mutants --count 10000` validates so many, and says what came of them.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.manifest import Applied, Diagnostic, ManifestError
from reconciler.manifest.files import Content, FileBytes
from reconciler.manifest.load import apply_content

ROOT: Final = Path(__file__).resolve().parents[1]
#: What is put in the place of something else.
_WORDS: Final = (
    *(
        "~",
        "null",
        "true",
        "no",
        "-1",
        "1e999",
        "0x10",
        ".inf",
        ".nan",
        "99999999999999999999",
        "''",
        '"',
        "'",
    ),
    *(
        "{",
        "}",
        "[",
        "]",
        "&a",
        "*a",
        "!!python/object:os.system",
        "!x",
        "|",
        ">",
        "-",
        ":",
        "#",
        "%",
        "@",
        "`",
    ),
    *(
        "8GiB",
        "-8GiB",
        "5m",
        "75%",
        "${env:HOME}",
        "${env:",
        "${port}",
        "..",
        "/dev/zero",
        "\t",
        "\u00a0",
        "\ufeff",
    ),
    *("\x00", "\U0001f600", "---", "...", "<<: *a", "? x"),
)


def seeds() -> tuple[str, ...]:
    """Return the sound manifests that are changed: those of this repository."""
    files = [*sorted((ROOT / "manifests").glob("*.yaml")), *sorted((ROOT / "examples").glob("*/m*.yaml"))]
    return tuple(file.read_text(encoding="utf-8") for file in files)


def _lines(change: Callable[[random.Random, list[str]], None]) -> Callable[[random.Random, str], str]:
    def apply(draw: random.Random, text: str) -> str:
        lines = text.splitlines(keepends=True) or [""]
        change(draw, lines)
        return "".join(lines)

    return apply


def _at(draw: random.Random, lines: list[str]) -> int:
    return draw.randrange(len(lines)) if lines else 0


def _drop(draw: random.Random, lines: list[str]) -> None:
    del lines[_at(draw, lines)]


def _twice(draw: random.Random, lines: list[str]) -> None:
    at = _at(draw, lines)
    lines.insert(at, lines[at])


def _swap(draw: random.Random, lines: list[str]) -> None:
    a, b = _at(draw, lines), _at(draw, lines)
    lines[a], lines[b] = lines[b], lines[a]


def _indent(draw: random.Random, lines: list[str]) -> None:
    at = _at(draw, lines)
    lines[at] = (
        draw.choice((" ", "  ", "\t", "\u00a0")) + lines[at] if draw.random() < 0.6 else lines[at].lstrip()
    )


def _value(draw: random.Random, lines: list[str]) -> None:
    at = _at(draw, lines)
    key, colon, _ = lines[at].partition(":")
    lines[at] = f"{key}{colon} {draw.choice(_WORDS)}\n"


def _insert(draw: random.Random, text: str) -> str:
    at = draw.randint(0, len(text))
    return text[:at] + draw.choice(_WORDS) + text[at:]


def _letter(draw: random.Random, text: str) -> str:
    at = draw.randrange(len(text)) if text else 0
    return text[:at] + chr(draw.choice((draw.randrange(32, 127), draw.randrange(0xD7FF)))) + text[at + 1 :]


def _cut(draw: random.Random, text: str) -> str:
    return text[: draw.randint(0, len(text))]


def _splice(draw: random.Random, text: str) -> str:
    a, b = sorted((draw.randint(0, len(text)), draw.randint(0, len(text))))
    return text[:a] + text[b:]


_CHANGES: Final[tuple[Callable[[random.Random, str], str], ...]] = (
    *(_lines(change) for change in (_drop, _twice, _swap, _indent, _value, _value, _value)),
    *(_insert, _insert, _letter, _letter, _cut, _splice),
)


def mutant(draw: random.Random, text: str) -> bytes:
    """Return the bytes of a text that was changed in one to four places, now and then without regard to UTF-8."""
    for _ in range(draw.randint(1, 4)):
        text = draw.choice(_CHANGES)(draw, text)
    data = text.encode("utf-8", "surrogatepass")
    if draw.random() < 0.05 and data:
        at = draw.randrange(len(data))
        data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
    return data


def mutants(seed: int, count: int) -> Iterator[bytes]:
    """Yield so many."""
    draw, sound = random.Random(seed), seeds()
    for _ in range(count):
        yield mutant(draw, draw.choice(sound))


def judged(data: bytes) -> Applied | tuple[Diagnostic, ...]:
    """Validate a manifest of these bytes; raise whatever is no ManifestError, for that is a fault of ours."""
    content = Content("m.yaml", (FileBytes("m.yaml", ROOT / "manifests", data, entry="m.yaml"),), digest="-")
    try:
        return apply_content(content, environ={"HOME": "/root"})
    except ManifestError as error:
        error.render()
        return error.diagnostics


def misplaced(data: bytes, found: tuple[Diagnostic, ...]) -> list[str]:
    """Return what is wrong with the places of diagnostics: each lies in the text, and every refusal has one."""
    lines = data.decode("utf-8", "replace").splitlines() or [""]
    wrong = [] if found else ["refused without a word"]
    for one in found:
        if not one.message:
            wrong.append(f"nothing is said at {one.line}:{one.col}")
        if one.line and not (1 <= one.line <= len(lines) + 1 and one.col >= 1):
            wrong.append(f"{one}: there are {len(lines)} lines")
        elif 1 <= one.line <= len(lines) and one.col > len(lines[one.line - 1]) + 1:
            wrong.append(f"{one}: the line has {len(lines[one.line - 1])} characters")
    return wrong


@dataclass
class Tally:
    """What came of them."""

    sound: int = 0
    refused: int = 0
    slowest: float = 0.0

    def __post_init__(self) -> None:
        self.codes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, data: bytes) -> None:
        """Validate one more."""
        began = time.monotonic()
        try:
            result = judged(data)
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}\n{data!r}")
            return
        self.slowest = max(self.slowest, time.monotonic() - began)
        if isinstance(result, Applied):
            self.sound += 1
            return
        self.refused += 1
        self.codes.update(one.code for one in result)
        self.wrong += [f"{problem}\n{data!r}" for problem in misplaced(data, result)]


def main() -> int:
    """Validate as many as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tally = Tally()
    for data in mutants(given.seed, given.count):
        tally.add(data)
    print(f"{tally.sound} sound, {tally.refused} refused, the slowest took {tally.slowest * 1000:.0f} ms")
    print(", ".join(f"{code} {count}" for code, count in tally.codes.most_common()))
    print("\n\n".join(tally.wrong[:20]))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
