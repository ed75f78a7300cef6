"""Names and aliases: nothing that looks like a path, hides a character, or is claimed twice."""

import unicodedata
from pathlib import Path

import pytest

from manifest_texts import HEAD, accept, places, refuse

CLASHES = f"""\
{HEAD}models:
  "org/Model:Q4_K_M": {{aliases: [gpt-4o, small]}}
  "a/b-c": {{aliases: [small]}}
  "a-b/c": {{}}
  "Café": {{aliases: ["a/b-c"]}}
"""


def test_clashes_of_aliases_and_names_show_both_places(tmp_path: Path) -> None:
    small, name = refuse(tmp_path, CLASHES)
    assert places((small, name)) == [(4, 23, "name-clash"), (6, 22, "name-clash")]
    assert "m.yaml:3:42" in small.message
    assert "m.yaml:4:3" in name.message


def test_slashes_colons_and_letters_of_any_script_are_names(tmp_path: Path) -> None:
    repaired = CLASHES.replace('"a/b-c": {aliases: [small]}', '"a/b-c": {}').replace(
        '{aliases: ["a/b-c"]}', "{}"
    )
    names = ("org/Model:Q4_K_M", "a/b-c", "a-b/c", "Café")
    assert accept(tmp_path, repaired).routes == {n: n for n in names} | dict.fromkeys(
        ("gpt-4o", "small"), names[0]
    )


def test_names_that_differ_only_in_their_encoding_are_one_name(tmp_path: Path) -> None:
    twins = [unicodedata.normalize(form, "Café") for form in ("NFC", "NFD")]
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  {twins[0]}: {{}}\n  {twins[1]}: {{}}\n")
    assert (found.line, found.code) == (4, "name-clash")
    assert "m.yaml:3:3" in found.message


@pytest.mark.parametrize("aliases", ["[b, b]", "[a]"])
def test_an_alias_that_says_nothing_new_is_refused(tmp_path: Path, aliases: str) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  a: {{aliases: {aliases}}}\n")
    assert found.code == "name-clash"


@pytest.mark.parametrize("where", ["{}: {{}}", "m: {{aliases: [{}]}}"], ids=["name", "alias"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ('"../../../tmp/pwned"', "/ or ."),
        ('"/etc/passwd"', "/ or ."),
        ('"a/../b"', '".."'),
        ('"a\\\\..\\\\b"', '".."'),
        ('"a\\nb: injected"', "U+000A"),
        ('"x\\u202Ey"', "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ('".."', "/ or ."),
        ('".hidden"', "/ or ."),
        ('""', "empty"),
        ('"  "', "empty"),
        ('" a"', "blank"),
        (f'"{"x" * 129}"', "128"),
    ],
)
def test_names_that_become_paths_headers_or_log_lines(
    tmp_path: Path, name: str, said: str, where: str
) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  {where.format(name)}\n")
    assert (found.line, found.code) == (3, "name")
    assert said in found.message
    assert found.render().isprintable() or all(c.isprintable() or c == "\n" for c in found.render())


@pytest.mark.parametrize("where", ["{}: {{}}", "m: {{aliases: [{}]}}"], ids=["name", "alias"])
def test_a_nul_is_no_part_of_a_name(tmp_path: Path, where: str) -> None:
    found = refuse(
        tmp_path, f"{HEAD}models:\n  {where.format(chr(34) + 'CON' + chr(92) + 'u0000' + chr(34))}\n"
    )
    assert any("U+0000 NUL" in d.message for d in found)


@pytest.mark.parametrize("name", ["x" * 128, "a..b", "a.b/c", "모델", "a b", "a%2Fb", "gpt-4o:latest", "no"])
def test_names_that_are_fine(tmp_path: Path, name: str) -> None:
    assert set(accept(tmp_path, f"{HEAD}models:\n  '{name}': {{}}\n").routes) == {name}
