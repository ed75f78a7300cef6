"""Whether a text has program text in it: a rule of thumb that is the same for everybody, and cheap.

A fence (``` or ~~~ at the beginning of a line) says so by itself. Without one, each line is judged by its shape:
statements, assignments, calls, brackets, tags, SQL, comparisons, tracebacks, patches. A quarter of the lines, and two
at least, must look like that, or all of them. Words alone never count, so prose in any language is none, and neither is
a wish for a program.
"""

import re
from typing import Final

#: Lines that are judged, and characters of each; what is behind says nothing new.
MOST_LINES: Final = 200
MOST_CHARACTERS: Final = 200
SHARE: Final = 0.25

_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
#: Beginnings of lines, after blanks.
_BEGINS: Final = (
    r"[{}()\[\];,]+$",
    # Definitions and imports.
    (
        r"(?:(?:export|default|public|private|protected|static|final|abstract|pub|async|unsafe) )*"
        r"(?:def|fn|func|function|class|struct|enum|impl|interface|trait|namespace)\b ?[\w<>:.]*[ ]?[({<:].*$"
    ),
    r"from [\w.]+ import [\w(*]",
    r"import (?:[\w.]+(?: as \w+)?|[\w{}*, ]+ from ['\"].*|['\"<].*);?$",
    r"#include *[<\"]|#!/|#define \w|#if(?:n?def)? \w",
    r"(?:using|package|use) [\w.:]+(?:::\{.*\})?;$",
    # Statements.
    r"(?:if|else if|elif|while|for|switch|catch|foreach)\s*\(.*\)\s*[{:;]?$",
    r"(?:if|elif|while)\b.*(?:[=!<>]=|[<>]|\(|_).*:$",
    r"for \w+(?:, ?\w+)* in [\w.\[\]]+(?:\(.*\))?:$",
    r"(?:try|else|finally)\s*[:{]$|do ?\{$|(?:with|except)\b.*[(_.].*:$|except \w+(?: as \w+)?:$|\} ?(?:else|catch)",
    r"(?:return|break|continue|throw|yield|await|goto|delete)(?: [^\s]+)?;$",
    # Declarations, assignments, and calls that are a whole line.
    (
        r"(?:const|let|var|val|final|auto|int|long|float|double|char|bool|boolean|string|String|void)\b"
        r"[ *&<>\[\]\w:]*(?:=|;$|\()"
    ),
    r"[\w.$@*&-]+(?:\[[^\]]*\])?(?:: ?[\w\[\], |.]+)? ?(?::|[+*/|&-])?= ?[^=\s]",
    r"(?:await )?[\w.$:]+\(.*\)(?:[;,:]|\.\w.*| ?\{)?$",
    r"@\w+(?:\.\w+)*(?:\(.*\))?$",
    r"\"[^\"]+\" ?: ?\S",
    r"//|/\*|\*/",
    # Tags, queries.
    r"<[!/]?[a-z][\w:-]*(?:\s+[\w:@-]+=|\s*/?>)|<!DOCTYPE|<\?(?:php|xml)",
    r"SELECT\b.*|INSERT INTO |DELETE FROM |CREATE (?:TABLE|INDEX|VIEW) |ALTER TABLE |GROUP BY |ORDER BY ",
    r"(?:LEFT |INNER |OUTER )*JOIN \w|WHERE .*(?:[=<>]| IN | LIKE )|FROM \w+(?: \w+)?;?$|UPDATE \w+ SET ",
    # What programs say of themselves.
    r"Traceback \(most recent|File \".*\", line \d|at [\w.$<>]+\(.*\)$|\w+(?:Error|Exception)\b: ",
    r"[\w./-]+:\d+:\d+: |(?:error|warning)(?:\[\w+\])?: |diff --git |@@ -\d|\+\+\+ [ab]/|--- [ab]/",
    r"\$ \w",
)
#: Anywhere in a line.
_ANYWHERE: Final = (
    r"[\w)>\]] ?\{$",
    r"(?:\w\(|[\[\]{}=]).*;$",
    r"[\w)\]'\"] ?(?:===?|!==?|&&|\|\|) ?[\w(\['\"!-]",
    r"\) ?(?:=>|->) ?\S|\w::\w|\w\+\+;?$",
)
_SHAPES: Final = re.compile(rf"\s*(?:{'|'.join(_BEGINS)})|.*(?:{'|'.join(_ANYWHERE)})")
#: A statement that is only one because it is indented: prose has these words at the beginning of lines, too.
_INDENTED: Final = re.compile(r"(?: {2,}|\t)\s*(?:return|break|continue|pass|raise|yield|await)\b")


def looks_like_code(text: str) -> bool:
    """Say whether there is program text in `text`.

    >>> looks_like_code("for i in range(3):\\n    print(i)"), looks_like_code("Please write a loop for me.")
    (True, False)
    """
    if _FENCE.search(text):
        return True
    lines = hits = 0
    for line in text[: MOST_LINES * MOST_CHARACTERS].splitlines()[:MOST_LINES]:
        if not line.strip():
            continue
        lines += 1
        if _is_code(line[:MOST_CHARACTERS].rstrip()):
            hits += 1
    return hits > 0 and (hits == lines or (hits >= 2 and hits >= lines * SHARE))


def _is_code(line: str) -> bool:
    return _SHAPES.match(line) is not None or _INDENTED.match(line) is not None
