"""A command written as one text is split as a shell would, and nothing is expanded."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifest_texts import HEAD, accept, refuse
from reconciler.manifest.words import SplitError, split

ARGV = (
    *(
        "--a",
        "two words",
        "--kw",
        '{"enable_thinking": false}',
        "--re",
        "a\\.b",
        "--hash",
        "x # y",
        "--empty",
        "",
    ),
)
ONE_LINE = """\
    command: >-
      FAKE --a 'two words' --kw '{"enable_thinking": false}' --re 'a\\.b' --hash 'x # y' --empty ''
"""
BLOCK = """\
    command: |
      FAKE --a "two words" \\
        --kw "{\\"enable_thinking\\": false}"
        # --old-flag 1, don't pass it \\
        --re 'a\\.b'
        --hash 'x # y' --empty ""
"""
UNTOUCHED = ("$HOME", "~", "*.gguf", "a;b", "--kw", '{"a": "b c"}', "-n", "-1")


def model(lines: str) -> str:
    return f"{HEAD}models:\n  s:\n    engine: command\n{lines}"


@pytest.mark.parametrize(
    "lines", [ONE_LINE, BLOCK, BLOCK.replace("\n", "\r\n")], ids=["line", "block", "crlf"]
)
def test_argv_is_exactly_what_is_written(tmp_path: Path, lines: str) -> None:
    assert accept(tmp_path, model(lines)).launches["s"].command == ("FAKE", *ARGV)


def test_what_yaml_would_take_apart_is_refused_with_how_to_write_it(tmp_path: Path) -> None:
    unquoted = ONE_LINE.replace(">-\n      ", "")
    (found,) = refuse(tmp_path, model(unquoted))
    assert (found.line, found.col, found.code) == (5, 59, "yaml-syntax")
    assert "command: |" in found.hint
    (found,) = refuse(tmp_path, model("    command: FAKE --hash 'x # y'\n"))
    assert (found.line, found.code) == (5, "command")
    assert "command: |" in found.hint


def test_a_list_is_passed_as_it_is(tmp_path: Path) -> None:
    listed = """    command: [FAKE, "$HOME", "~", "*.gguf", "a;b", "--kw", '{"a": "b c"}', "-n", "-1"]\n"""
    assert accept(tmp_path, model(listed)).launches["s"].command == ("FAKE", *UNTOUCHED)


def test_nothing_is_expanded_in_a_text_either(tmp_path: Path) -> None:
    text = """    command: |-\n      FAKE $HOME ~ *.gguf a;b --kw '{"a": "b c"}' -n -1\n"""
    assert accept(tmp_path, model(text)).launches["s"].command == ("FAKE", *UNTOUCHED)


def test_blanks_and_letters_of_any_script_in_paths(tmp_path: Path) -> None:
    lines = """\
    command: ["./dir with blank/FAKE é", -m, "./models/Käse model.gguf"]
    cwd: .
    env: {GREETING: "a=b c", EMPTY: ""}
"""
    launch = accept(tmp_path, model(lines)).launches["s"]
    assert launch.command == (f"{tmp_path}/dir with blank/FAKE é", "-m", "./models/Käse model.gguf")
    assert launch.cwd == str(tmp_path)
    assert launch.env == (("EMPTY", ""), ("GREETING", "a=b c"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b", ["a", "b"]),
        ("a \\\n b", ["a", "b"]),
        ("a\\\nb", ["ab"]),
        ("a'b c'd", ["ab cd"]),
        ('"a\\$b\\x\\\\"', ["a$b\\x\\"]),
        ("a\\ b \\# c#d", ["a b", "#", "c#d"]),
        ("# all\n  # of it\n", []),
        ("a\n# don't\nb", ["a", "b"]),
        ("'a\n# kept\nb'", ["a\n# kept\nb"]),
        ("''", [""]),
    ],
)
def test_splitting(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a 'b", 0, "never closed"),
        ('a\n"b\nc', 1, "never closed"),
        ("a\n b \\", 1, "last backslash"),
        ("a --color #fff", 0, "middle of a line"),
        ("serve --port 1 \\ \n --x 1", 0, "blanks behind it"),
        ("serve\n --a \\\t\n --b", 1, "blanks behind it"),
        ("serve \\ ", 0, "blanks behind it"),
    ],
)
def test_what_cannot_be_split(text: str, line: int, message: str) -> None:
    with pytest.raises(SplitError, match=message) as caught:
        split(text)
    assert caught.value.line == line


@given(st.lists(st.text(alphabet="ab \t\n'\"\\$#;*~", max_size=6), max_size=5))
def test_whatever_is_quoted_comes_back(words: list[str]) -> None:
    assert split(shlex.join(words)) == words


def test_a_fault_in_a_block_is_named_on_its_own_line(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, model("    command: |\n      FAKE --a\n        --b 'c\n"))
    assert (found.line, found.col, found.code) == (7, 9, "command")


@pytest.mark.parametrize("command", ["''", "'  '", '"# only a comment"', "[]", "['']"])
def test_an_empty_command_is_refused(tmp_path: Path, command: str) -> None:
    (found,) = refuse(tmp_path, model(f"    command: {command}\n"))
    assert (found.line, found.code in ("command", "empty-value")) == (5, True)


@pytest.mark.parametrize("program", ["~/bin/server", "$HOME/bin/server"])
def test_a_program_that_needs_a_shell_to_be_found_is_refused(tmp_path: Path, program: str) -> None:
    (found,) = refuse(tmp_path, model(f"    command: [{program}]\n"))
    assert "${env:HOME}" in found.hint
