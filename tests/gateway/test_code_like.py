"""Program text is told from prose by its shape, in every usual language."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.routing.code_like import looks_like_code

PROGRAMS = {
    "python": "def f(x):\n    return x + 1\n\nprint(f(2))",
    "python in a question": "Fix this please:\n\nfor item in items:\n    total += item.price\nprint(total)",
    "one line": "print(sum(x for x in range(3)))",
    "javascript": "const a = await fetch(url);\nif (!a.ok) {\n  throw new Error('x');\n}",
    "react": '<div className="a">\n  {items.map((i) => <Item key={i} />)}\n</div>',
    "rust": 'fn main() {\n    let v: Vec<i32> = vec![1];\n    println!("{:?}", v);\n}',
    "go": "package main\n\nfunc add(a int, b int) int {\n\treturn a + b\n}",
    "c": '#include <stdio.h>\nint main(void) {\n  printf("x");\n  return 0;\n}',
    "java": "public class Foo {\n    private int x;\n    public int getX() { return x; }\n}",
    "kotlin": "fun main() {\n    val x = 3\n    println(x)\n}",
    "php": "<?php\necho $a;\n$b = foo($a);",
    "css": ".a {\n  color: red;\n}",
    "sql": "SELECT id, name FROM users\nWHERE age > 30\nORDER BY name;",
    "json": '{\n  "a": 1,\n  "b": [1,2]\n}',
    "shell": "$ ls -la\n$ cat notes",
    "traceback": "What is wrong?\nTraceback (most recent call last):\n"
    '  File "a.py", line 3, in <module>\n    foo()\nTypeError: not callable',
    "patch": "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-a\n+b",
    "fence": "Was macht das?\n```\nx\n```",
    "other fence": "Look:\n~~~ruby\nputs 1\n~~~",
}
PROSE = {
    "nothing": "",
    "greeting": "Hi!",
    "a wish for code": "Please write a Python function that reverses a string (briefly).",
    "words that are keywords": "Import duties from China rose in May; exports fell.\n"
    "If you want to know why, consider the following reasons:\n"
    "for example, the new tariffs (which took effect in April) and the\n"
    "return of old quotas. While nobody knows for sure, class differences\n"
    "matter: the poor pay more. Let me know what you think!",
    "verse": "Tyger Tyger, burning bright,\nIn the forests of the night;\nWhat immortal hand or eye,\n"
    "Could frame thy fearful symmetry?\n\nIn what distant deeps or skies,\nreturn to me;\nreturn to me;",
    "a recipe": "do:\nstir well\nreturn to the oven;\nserve (warm);",
    "a letter": "Sehr geehrte Damen und Herren,\n\nhiermit kündige ich meinen Vertrag (Nr. 4711) zum 31.12.\n"
    "Bitte bestätigen Sie den Eingang schriftlich; außerdem bitte ich um\nRückerstattung der Kaution: 300 €.\n"
    "\nMit freundlichen Grüßen\nErika Mustermann",
    "a list": "Einkaufsliste:\n- 3 Eier\n- 200 g Mehl (Typ 405)\n\nZubereitung:\n1. Eier trennen.\n2. Rühren.",
    "markdown": "# Titel\n\n| Name | Alter |\n|---|---|\n| Anna | 30 |\n\n**Wichtig**: 3. Mai -> verschoben.\n====",
    "mail": "From: Anna\nTo: Bob\nSubject: Re: meeting\n\nHi Bob,\nfor now, let us meet at 5.\nwith regards:\nAnna",
    "dialogue": "ANNA: Was tun?\nBERND (lacht): Nichts.\nANNA: while we wait, return the book.",
    "chinese": "请用中文写一篇关于春天的文章。",
    "sums": "Was ist 3 + 4?\nSolve x^2 - 4 = 0 for x and explain each step.",
    "a quoted backquote": "What does `x = 1` do?",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_programs(text: str) -> None:
    assert looks_like_code(text)


@pytest.mark.parametrize("text", PROSE.values(), ids=PROSE)
def test_prose(text: str) -> None:
    assert not looks_like_code(text)


def test_a_few_lines_in_a_long_text_are_not_enough_without_a_fence() -> None:
    text = "It was a dark night, and nobody spoke.\n" * 20
    assert not looks_like_code(text + "x = f(1)\ny = f(2)\n")
    assert looks_like_code(text + "```\nx = f(1)\n```\n")


WORD = st.text("abcdefghijklmnopqrstuvwxyzäöüß", min_size=1, max_size=12)


@given(st.lists(st.lists(WORD, min_size=3, max_size=12).map(" ".join), min_size=1, max_size=12))
def test_plain_words_are_never_code(lines: list[str]) -> None:
    assert not looks_like_code("\n".join(line.capitalize() + "." for line in lines))


@pytest.mark.parametrize(
    "piece", ["a", "(", "a ", "a.a", "<a ", "if (", "int a ", "x: | ", "a[ ", '"a" ', "import a,"]
)
def test_no_text_takes_long(piece: str) -> None:
    line = (piece * 200)[:200] + "\n"
    started = time.process_time()
    looks_like_code(line * 400)
    assert (
        time.process_time() - started < 0.5
    )  # 0.03 here; what grows with the square of a line takes minutes
