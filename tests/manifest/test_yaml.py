"""What YAML does behind people's backs, said instead: duplicates, aliases, tags, conversions, characters."""

import time
import tracemalloc
from pathlib import Path

import pytest

from manifest_texts import HEAD, accept, places, refuse

CHAT = """\
models:
  chat:
    command: |
      FAKE --port
      9101
    engine: command
    port: 9101
    memory: {steady: 10Mi}
"""
ARGV = ("FAKE", "--port", "9101")


def test_every_duplicate_key_is_named_with_both_places(tmp_path: Path) -> None:
    text = f"""\
{HEAD}models:
  chat:
    engine: command
    port: 9101
    priority: 10
    # tried a bigger value and forgot the old line
    idle_ttl: 60
    priority: 300
  embed:
    port: 9102
    port: 9103
"""
    found = refuse(tmp_path, text)
    assert places(found) == [(9, 5, "duplicate-key"), (12, 5, "duplicate-key")]
    assert "line 6, column 5" in found[0].message
    assert "line 11, column 5" in found[1].message


def test_a_name_given_twice_is_named_with_both_places(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  chat: {{port: 9101}}\n  chat: {{port: 9102}}\n")
    assert (found.line, found.col, found.code) == (4, 3, "duplicate-key")
    assert '"chat"' in found.message
    assert "line 3, column 3" in found.message


def test_a_merge_key_is_an_override_and_the_first_of_a_list_wins(tmp_path: Path) -> None:
    text = f"""\
{HEAD}x-base: &base {{memory: {{steady: 100Mi}}, idle_ttl: 60}}
x-fast: &fast {{idle_ttl: 5}}
models:
  a: {{<<: *base, memory: {{steady: 200Mi}}, port: 9101}}
  b: {{port: 9102, <<: *base}}
  c: {{<<: [*base, *fast], port: 9103}}
"""
    a, b, c = accept(tmp_path, text).manifest.models
    assert (a.steady, b.steady, b.idle_ttl, c.idle_ttl) == (200 << 20, 100 << 20, 60, 60)


@pytest.mark.parametrize(
    ("merge", "code"),
    [
        ("<<: *a, <<: *a", "duplicate-key"),
        ("<<: 5", "bad-merge"),
        ("<<: [*a, x]", "bad-merge"),
        ("<<: *nope", "unknown-alias"),
    ],
)
def test_bad_merges(tmp_path: Path, merge: str, code: str) -> None:
    found = refuse(tmp_path, f"{HEAD}x-a: &a {{idle_ttl: 5}}\nmodels:\n  m: {{{merge}}}\n")
    assert code in {d.code for d in found}
    assert found[0].line == 4


def test_misplaced_and_misspelt_keys_each_get_a_diagnostic(tmp_path: Path) -> None:
    text = f"{HEAD}port: 8080\nidle_ttl: 60\nmodels:\n  chat: {{port: 9101, prioritiy: 100}}\n"
    top, misplaced, misspelt = refuse(tmp_path, text)
    assert (top.line, top.hint) == (2, "did you mean gateway.listen (127.0.0.1:8080)?")
    assert (misplaced.line, misplaced.hint) == (3, "it belongs to defaults.idle_ttl or models.NAME.idle_ttl")
    assert (misspelt.line, misspelt.col, misspelt.hint) == (5, 22, "did you mean priority?")


def test_an_alias_bomb_is_refused_before_anybody_walks_it(tmp_path: Path) -> None:
    lines = ["x-a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"x-{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdef", "bcdefg", strict=True)]
    tracemalloc.start()
    begun = time.monotonic()
    found = refuse(tmp_path, HEAD + "\n".join(lines) + "\nmodels: [*g, *g, *g, *g, *g, *g, *g, *g, *g]\n")
    taken, (_, peak) = time.monotonic() - begun, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [d.code for d in found] == ["alias-bomb"]
    assert taken < 1
    assert peak < 100 << 20


def test_a_merge_bomb_is_refused_too(tmp_path: Path) -> None:
    keys = ", ".join(f"k{i}: 1" for i in range(2000))
    maps = "\n".join(f"  - {{<<: *a, own{i}: 1}}" for i in range(1000))
    found = refuse(tmp_path, f"{HEAD}x-a: &a {{{keys}}}\nx-b:\n{maps}\nmodels: {{}}\n")
    assert [d.code for d in found] == ["alias-bomb"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("x-a: &a [*a]\n", "recursive-alias"), ("x-a: " + "[" * 60 + "]" * 60 + "\n", "too-deep")],
)
def test_what_would_never_end_is_refused(tmp_path: Path, text: str, code: str) -> None:
    assert [d.code for d in refuse(tmp_path, HEAD + text)] == [code]


def test_tags_are_refused_by_name(tmp_path: Path) -> None:
    text = f'{HEAD}machine: {{memory: !env TOTAL}}\nx-a: !!python/object/apply:os.system ["true"]\nmodels: {{}}\n'
    found = refuse(tmp_path, text)
    unknown = [d for d in found if d.code == "unknown-tag"]
    assert [(d.line, d.col) for d in unknown] == [(2, 19), (3, 6)]
    assert "!env" in unknown[0].message
    assert "!!python/object/apply:os.system" in unknown[1].message


def test_the_text_tag_is_as_good_as_quotes(tmp_path: Path) -> None:
    applied = accept(tmp_path, f"{HEAD}models:\n  a: {{args: [!!str 0.10, !!str 0123]}}\n")
    assert applied.launches["a"].args == ("0.10", "0123")


@pytest.mark.parametrize("name", ["no", "on", "y", "22:30", "2024-01-02", "1_000"])
def test_names_that_only_old_readers_convert_stay_as_written(tmp_path: Path, name: str) -> None:
    assert set(accept(tmp_path, f"{HEAD}models:\n  {name}: {{}}\n").launches) == {name}


@pytest.mark.parametrize("name", ["1.10", "0123", "~", "null", "true", "12", "+1", "0x10", "1e3"])
def test_names_that_yaml_reads_as_something_else_must_be_quoted(tmp_path: Path, name: str) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  {name}: {{}}\n")
    assert (found.line, found.col, found.code, found.hint) == (3, 3, "quote-it", f'quote it: "{name}"')
    assert set(accept(tmp_path, f'{HEAD}models:\n  "{name}": {{}}\n').launches) == {name}


def test_quoted_names_and_arguments_are_kept_exactly(tmp_path: Path) -> None:
    text = f"""\
{HEAD}models:
  "no": {{engine: command, command: [FAKE, --port, "9101"]}}
  "1.10": {{engine: command, command: [FAKE, --temp, "0.10"]}}
  "0123": {{engine: command, command: [FAKE]}}
  "22:30": {{engine: command, command: [FAKE]}}
"""
    applied = accept(tmp_path, text)
    assert sorted(applied.launches) == ["0123", "1.10", "22:30", "no"]
    assert applied.launches["1.10"].command == ("FAKE", "--temp", "0.10")


@pytest.mark.parametrize("key", ["command", "args"])
def test_arguments_that_are_no_text_are_refused_one_by_one(tmp_path: Path, key: str) -> None:
    found = refuse(
        tmp_path, f"{HEAD}models:\n  a: {{{key}: [FAKE, --port, 9110, --temp, 0.10, --seed, 0123, true]}}\n"
    )
    assert [d.hint for d in found] == [f'quote it: "{text}"' for text in ("9110", "0.10", "0123", "true")]
    assert {(d.line, d.code) for d in found} == {(3, "quote-it")}
    assert found[0].col < found[1].col < found[2].col < found[3].col


@pytest.mark.parametrize(
    ("port", "hint"),
    [
        ("09108", "write 9108: a leading zero is octal for some readers"),
        ('"9108"', "write it without quotes"),
        ("9108.0", "write it in plain decimal digits"),
        ("0x2394", "write it in plain decimal digits"),
        ("true", "write it in plain decimal digits"),
    ],
)
def test_ports_are_plain_numbers(tmp_path: Path, port: str, hint: str) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  a: {{port: {port}}}\n")
    assert (found.line, found.col, found.code, found.hint) == (3, 13, "wrong-type", hint)


def test_pinned_no_is_no_way_to_pin_or_not(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f'{HEAD}models:\n  a: {{pinned: "no"}}\n')
    assert (found.code, found.hint) == ("unknown-key", "write residency: pinned")


TEXT = HEAD + CHAT


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.rstrip("\n").encode(),
        ("---\n" + TEXT + "...\n").encode(),
    ],
    ids=["bom", "crlf", "no-final-newline", "document-marks"],
)
def test_harmless_oddities_are_accepted(tmp_path: Path, data: bytes) -> None:
    assert accept(tmp_path, data).launches["chat"].command == ARGV


@pytest.mark.parametrize(
    ("text", "line", "col", "said"),
    [
        ("---\n\ufeff" + TEXT, 2, 1, "U+FEFF"),
        (TEXT.replace("  chat:", "\tchat:"), 3, 1, "tab"),
        (TEXT.replace("models:\n", "models:\t\n"), 2, 8, "tab"),
        (HEAD.replace(": ", ":\t") + CHAT, 1, 12, "tab"),
        (TEXT.replace("  chat:", "\u00a0 chat:"), 3, 1, "U+00A0"),
        (TEXT.replace("port: 9101\n", "port:\u00a09101\n"), 8, 10, "U+00A0"),
        (TEXT.replace("chat", "ch\u200bat"), 3, 5, "U+200B"),
        (TEXT.replace("chat", "ch\0at"), 3, 5, "U+0000 NUL"),
        (TEXT.replace("chat", "ch\x1bat"), 3, 5, "U+001B"),
        (TEXT.replace("chat", "ch\u2028at"), 3, 5, "U+2028"),
    ],
)
def test_invisible_characters_are_named_where_they_are(
    tmp_path: Path, text: str, line: int, col: int, said: str
) -> None:
    said_there = [d.message for d in refuse(tmp_path, text) if (d.line, d.col) == (line, col)]
    assert said in " ".join(said_there)


def test_a_byte_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    data = TEXT.replace("chat", "caf\u00e9").encode("latin-1")
    (found,) = refuse(tmp_path, data)
    assert (found.line, found.col, found.code) == (3, 6, "encoding")
    assert f"byte 0xe9 at offset {data.index(0xE9)}" in found.message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_other_encodings_are_refused_clearly(tmp_path: Path, encoding: str) -> None:
    found = refuse(tmp_path, TEXT.encode(encoding))
    assert {d.code for d in found} <= {"encoding", "invisible-character"}


def test_two_documents_are_refused(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f"{TEXT}---\n{TEXT}")
    assert (found.line, found.code) == (10, "two-documents")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty-file"),
        ("# nothing yet\n", "empty-file"),
        ("---\n", "empty-file"),
        (f"{HEAD}models:\n", "empty-value"),
        (f"{HEAD}models: ~\n", "empty-value"),
        (HEAD, "missing-key"),
        ("just text\n", "wrong-type"),
        ("- a\n", "wrong-type"),
    ],
)
def test_nothing_is_not_zero_models(tmp_path: Path, text: str, code: str) -> None:
    assert [d.code for d in refuse(tmp_path, text)] == [code]


def test_zero_models_can_be_asked_for(tmp_path: Path) -> None:
    assert accept(tmp_path, f"{HEAD}models: {{}}\n").manifest.models == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("models: [a\n", 3),
        ('models: "a\n', 2),
        ("models: *a b\n", 2),
        ("models: @a\n", 2),
        ("? [a]\n: b\n", 2),
        ("a: b: c\n", 2),
    ],
)
def test_broken_yaml_has_a_place(tmp_path: Path, text: str, line: int) -> None:
    assert line in [d.line for d in refuse(tmp_path, HEAD + text)]


def test_a_thousand_models_are_read_in_time(tmp_path: Path) -> None:
    models = "".join(
        f"  m{i:04d}: {{engine: command, command: [FAKE, --port, '{i}'], port: {20000 + i}, memory: {{steady: 1Mi}}}}\n"
        for i in range(1000)
    )
    begun = time.process_time()
    applied = accept(tmp_path, f"{HEAD}models:\n{models}")
    assert len(applied.manifest.models) == 1000
    assert time.process_time() - begun < 1.7
