"""API keys: in a list, in a file, in a variable; and never in anything that is shown."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifest_texts import HEAD, accept, refuse
from reconciler.manifest.applied import EVERYTHING, ApiKey, Scope
from reconciler.manifest.key_lines import KeyLineError, parse_key_line, split_variable

INFER_READ = frozenset({Scope.INFER, Scope.READ})
PHONE = ApiKey("CANARY-2", "phone", INFER_READ, 250)


def manifest(keys: str) -> str:
    return f"{HEAD}gateway: {{api_keys: {keys}}}\nmodels: {{}}\n"


def test_a_list_of_keys(tmp_path: Path) -> None:
    listed = "[CANARY-1, {key: CANARY-2, name: phone, scopes: [read, infer], priority: low}, {key: CANARY-3}]"
    applied = accept(tmp_path, manifest(listed))
    assert applied.gateway.api_keys == (
        ApiKey("CANARY-1", "key-1", EVERYTHING),
        PHONE,
        ApiKey("CANARY-3", "key-3", EVERYTHING),
    )
    assert "CANARY" not in repr(applied)


FILE = """\
# for the phone
CANARY-1

  CANARY-2   scopes=infer,read name=phone priority=low
CANARY,3 scopes=admin priority=7
"""


def test_a_file_of_keys(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text(FILE)
    applied = accept(tmp_path, manifest("{file: keys.txt}"))
    assert applied.gateway.api_keys == (
        ApiKey("CANARY-1", "key-1"),
        PHONE,
        ApiKey("CANARY,3", "key-3", frozenset({Scope.ADMIN}), 7),
    )


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ("CANARY-1", ["CANARY-1"]),
        ("CANARY-1,CANARY-2", ["CANARY-1", "CANARY-2"]),
        (" CANARY-1 , CANARY-2,", ["CANARY-1", "CANARY-2"]),
        ("CANARY-1\n# note\nCANARY-2 scopes=infer,read name=phone priority=low\n", ["CANARY-1", "CANARY-2"]),
    ],
)
def test_keys_from_a_variable(tmp_path: Path, value: str, keys: list[str]) -> None:
    applied = accept(tmp_path, manifest("{env: MY_KEYS}"), environ={"MY_KEYS": value})
    assert [key.key for key in applied.gateway.api_keys] == keys
    assert applied.gateway.key_variables == ("MY_KEYS",)
    assert "CANARY" not in repr(applied)


def test_variables_inside_a_list_are_known_too(tmp_path: Path) -> None:
    listed = "['${env:B}', {key: '${env:A:-CANARY-0}', name: n}, '$${env:C}']"
    applied = accept(tmp_path, manifest(listed), environ={"A": "CANARY-1", "B": "CANARY-2"})
    assert [key.key for key in applied.gateway.api_keys] == ["CANARY-2", "CANARY-1", "${env:C}"]
    assert applied.gateway.key_variables == ("A", "B")


def test_a_name_that_is_taken_is_not_given_to_another_key(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("a-key\nb-key name=key-1\n")
    keys = accept(tmp_path, manifest("{file: keys.txt}")).gateway.api_keys
    assert [key.name for key in keys] == ["key-1.1", "key-1"]


REFUSED = [
    ("[CANARY-1, CANARY-1]", "as item 1"),
    ("[{key: CANARY-1, name: a}, {key: CANARY-2, name: a}]", "by item 1"),
    ("[{key: CANARY-1, name: my-CANARY-1}]", "repeats a key"),
    ("[{key: CANARY-1, name: 'a b'}]", "not the name of a key"),
    ("[{key: 'CANARY 1'}]", "visible ASCII"),
    ("['CANARY 1']", "visible ASCII"),
    ("[{name: a}]", '"key" is missing'),
    ("[{key: CANARY-1, scopes: []}]", "nothing in it"),
    ("[{key: CANARY-1, scopes: [all]}]", '"all" is not one of'),
    ("[{key: CANARY-1, priority: hihg}]", '"hihg" is not a priority'),
    ("[{key: CANARY-1, scope: [read]}]", 'unknown key "scope"'),
    ("[{kee: CANARY-1}]", 'unknown key "kee"'),
    ("{fil: CANARY-1}", 'unknown key "fil"'),
    ("{file: keys.txt, env: X}", "cannot stand beside"),
    ("{key: CANARY-1}", "does not belong here"),
    ("{env: 'A-B'}", "not the name of a variable"),
    ("{env: NOT_SET}", "NOT_SET is not set"),
    ("{env: EMPTY}", "no key in it"),
    ("CANARY-1", "expected a list"),
    ("[]", "nothing in it"),
]


@pytest.mark.parametrize(("keys", "said"), REFUSED)
def test_a_wrong_key_is_named_without_showing_it(tmp_path: Path, keys: str, said: str) -> None:
    (tmp_path / "keys.txt").write_text("CANARY-9\n")
    found = refuse(tmp_path, manifest(keys), environ={"EMPTY": " , \n"})
    shown = "\n".join(d.render() + repr(d) for d in found)
    assert said in shown
    assert "CANARY" not in shown
    assert all(d.line == 2 for d in found if d.code != "missing-key")


LINES = [
    ("CANARY-1\nCANARY-1\n", "line 2", "as line 1"),
    ("CANARY-1 name=a\n\nCANARY-2 name=a\n", "line 3", "name a is taken"),
    ("CANARY-1\nCANARY-2 name=CANARY-1\n", "line 2", "repeats a key"),
    ("CANARY-1 CANARY-2\n", "line 1", "word 2"),
    ("name=phone\n", "line 1", "the key is missing"),
    ("CANARY-1 scopes=infer scopes=read\n", "line 1", "twice"),
    ("CANARY-1 scopes=infer,all\n", "line 1", "all"),
    ("CANARY-1 scopes=\n", "line 1", "scopes"),
    ("CANARY-1 priority=\n", "line 1", "priority"),
    ("CANARY-1 priority=1e3\n", "line 1", "priority"),
    ("CANARY-1 name=\n", "line 1", "not a name"),
    ("CANARY-1 name=é\n", "line 1", "not a name"),
    ("CANARY-ä\n", "line 1", "not a key"),
]


@pytest.mark.parametrize(("text", "line", "said"), LINES)
def test_a_wrong_line_is_named_by_its_number(tmp_path: Path, text: str, line: str, said: str) -> None:
    (tmp_path / "keys.txt").write_text(text)
    (found,) = refuse(tmp_path, manifest("{file: keys.txt}"))
    assert found.code == "api-keys"
    assert Path(found.file).name == "keys.txt"
    assert Path(found.file).parent == tmp_path
    assert f"line {found.line}" == line
    assert line in found.message
    assert said in found.message
    assert "CANARY" not in found.render()


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("scope=infer", "scopes"),
        ("scope=infer,read", "scopes"),
        ("Scopes=infer", "scopes"),
        ("nmae=phone", "name"),
        ("prio=low", None),
        ("CANARY-scopes", None),
    ],
)
@pytest.mark.parametrize("source", ["{file: keys.txt}", "{env: KEYS}"])
def test_a_misspelled_setting_of_a_key_gets_the_near_one(
    tmp_path: Path, setting: str, meant: str | None, source: str
) -> None:
    text = f"CANARY-1\nCANARY-2 {setting}\n"
    (tmp_path / "keys.txt").write_text(text)
    first, *_ = refuse(tmp_path, manifest(source), environ={"KEYS": text})
    assert first.hint == (f"did you mean {meant}?" if meant else first.hint)
    assert ("did you mean" in first.hint) is (meant is not None)
    assert "CANARY" not in first.render()


def test_the_digest_tells_other_keys_apart_and_nothing_of_them(tmp_path: Path) -> None:
    texts = ["[a-1]", "[a-2]", "[{key: a-1, scopes: [read]}]", "[{key: a-1, priority: 1}]", "[a-1, a-2]"]
    digests = [accept(tmp_path, manifest(text)).digest for text in texts]
    assert len(set(digests)) == len(texts)
    assert accept(tmp_path, manifest("[a-2, a-1]")).digest != digests[-1]  # their names are other ones
    (tmp_path / "keys.txt").write_text("a-1\n")
    assert accept(tmp_path, manifest("{file: keys.txt}")).digest == digests[0]


KEY = st.text(string.ascii_letters + string.digits + "-_.,:+/", min_size=1, max_size=40)
SCOPES = st.sets(st.sampled_from(Scope), min_size=1).map(frozenset)


@given(KEY, SCOPES, st.integers(-1000, 1000))
def test_what_is_written_is_read(key: str, scopes: frozenset[Scope], priority: int) -> None:
    line = f"{key} priority={priority} scopes={','.join(sorted(scopes))} name=n"
    assert parse_key_line(line) == ApiKey(key, "n", scopes, priority)
    assert split_variable(f"{line}\n{line}") == [line, line]


@given(st.text(max_size=60))
def test_no_line_is_repeated(text: str) -> None:
    line = f"CANARY {text}".splitlines()[0]
    said = ""
    try:
        parse_key_line(line)
    except KeyLineError as error:
        said = f"{error.problem} {error.hint}"
    assert "CANARY" not in said
