"""Writing sizes into a manifest: only the touched lines differ, and what others share is left alone."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from reconciler.manifest.edit import EditError, plan_edit, set_memory, write_edit
from reconciler.manifest.load import load_manifest

HEAD = "apiVersion: reconciler/v1  # the version\n"
STEADY = {"steady": "4.3GiB"}
BOTH = {"steady": "4.3GiB", "peak": "5GiB"}

#: What is written of the model `chat`, what is set, and the lines that then stand in place of others.
CASES: dict[str, tuple[str, Mapping[str, str], list[str], list[str]]] = {
    "block": (
        "    memory:   # what it takes\n      steady: 1GiB   # measured in May\n      mode: mlock\n",
        STEADY,
        ["      steady: 1GiB   # measured in May"],
        ["      steady: 4.3GiB   # measured in May"],
    ),
    "block without the key": (
        "    memory:\n      mode: mlock  # mapped\n\n      # the end\n",
        BOTH,
        [],
        ["      steady: 4.3GiB", "      peak: 5GiB"],
    ),
    "quoted": (
        "    memory: {steady: '1GiB'}\n",
        STEADY,
        ["    memory: {steady: '1GiB'}"],
        ["    memory: {steady: '4.3GiB'}"],
    ),
    "double quoted": (
        '    memory:\n      "steady": "1GiB"\n',
        STEADY,
        ['      "steady": "1GiB"'],
        ['      "steady": "4.3GiB"'],
    ),
    "a number": (
        "    memory: {steady: 1000}\n",
        STEADY,
        ["    memory: {steady: 1000}"],
        ["    memory: {steady: 4.3GiB}"],
    ),
    "flow": (
        "    memory: { mode: mlock , }  # as is\n",
        BOTH,
        ["    memory: { mode: mlock , }  # as is"],
        ["    memory: { mode: mlock, steady: 4.3GiB, peak: 5GiB , }  # as is"],
    ),
    "empty flow": ("    memory: { }\n", STEADY, ["    memory: { }"], ["    memory: {steady: 4.3GiB}"]),
    "anchored, used by nobody": (
        "    memory: &m {steady: &s 1GiB}\n",
        STEADY,
        ["    memory: &m {steady: &s 1GiB}"],
        ["    memory: &m {steady: &s 4.3GiB}"],
    ),
    "none": ("    priority: high   # first\n", STEADY, [], ["    memory: {steady: 4.3GiB}"]),
    "none, a list last": (
        "    args:\n      - --a\n      - --b  # c\n",
        BOTH,
        [],
        ["    memory: {steady: 4.3GiB, peak: 5GiB}"],
    ),
    "none, an alias last": ("    env: *shared   # of all\n", STEADY, [], ["    memory: {steady: 4.3GiB}"]),
    "from a scalar peak": (
        "    memory: {steady: 1GiB,\n             peak: 2GiB}\n",
        BOTH,
        ["    memory: {steady: 1GiB,", "             peak: 2GiB}"],
        ["    memory: {steady: 4.3GiB,", "             peak: 5GiB}"],
    ),
}


def manifest(body: str) -> str:
    return (
        HEAD
        + "defaults:\n  memory: {mode: none}\n\n"
        + "models:\n\n"
        + "  other:\n    command: [a, '${port}']\n    engine: command\n    env: &shared {A: b}\n\n"
        + "  # the main one\n  chat:\n    engine:   command\n    command: |   # long\n      serve ${port}\n"
        + body
        + "  last: {engine: command, command: [c, '${port}']}\n"
    )


def changed(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the lines only one of the two has, in order."""
    old, new = before.split("\n"), after.split("\n")
    return [line for line in old if line not in new], [line for line in new if line not in old]


@pytest.mark.parametrize("name", sorted(CASES))
def test_only_the_touched_lines_differ(name: str, tmp_path: Path) -> None:
    body, values, gone, come = CASES[name]
    text = manifest(body)
    file = tmp_path / "desk.yaml"
    file.write_text(text)
    edit = plan_edit(tmp_path, "chat", values, {})
    after = edit.after.decode()
    assert changed(text, after) == (gone, come)
    assert after.count("\n") == text.count("\n") + len(come) - len(gone)
    write_edit(edit)
    chat = load_manifest(file, environ={}).manifest.models[0]
    assert chat.steady == int(4.3 * 2**30)
    assert chat.peak == (5 * 2**30 if "peak" in values else None)


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("last", ["", "END"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_marks_and_a_missing_last_end_are_kept(end: str, last: str, mark: str) -> None:
    text = mark + (HEAD + "models:\n  chat:\n    engine: command\n    command: [a, '${port}']").replace(
        "\n", end
    )
    text += last.replace("END", end)
    assert set_memory(text, "f", "chat", STEADY) == (
        text.removesuffix(end if last else "")
        + f"{end}    memory: {{steady: 4.3GiB}}"
        + last.replace("END", end)
    )


def test_json_stays_json() -> None:
    text = '{"apiVersion": "reconciler/v1", "models": {"chat": {"engine": "command"}}}'
    expected = text.replace("}}}", ', "memory": {"steady": "4.3GiB", "peak": "5GiB"}}}}')
    assert set_memory(text, "f", "chat", BOTH) == expected


SHARED = {
    "the whole model": (
        "models:\n  a: &a {engine: command, command: [x, '${port}']}\n  chat: *a\n",
        "f.yaml:3: chat is shared through an anchor",
    ),
    "a model others merge": (
        "models:\n  chat: &a {engine: command, command: [x, '${port}']}\n  b: {<<: *a}\n",
        "f.yaml:3: chat is shared",
    ),
    "its memory": (
        "x-m: &m {steady: 1GiB}\nmodels:\n  chat: {engine: command, memory: *m}\n",
        "f.yaml:2: chat.memory is shared",
    ),
    "its memory, which others use": (
        "models:\n  chat: {memory: &m {steady: 1GiB}}\n  b: {memory: *m}\n",
        "f.yaml:3: chat.memory is shared",
    ),
    "the size alone": (
        "x-s: &s 1GiB\nmodels:\n  chat: {memory: {steady: *s}}\n",
        "f.yaml:2: chat.memory.steady is shared",
    ),
    "a merge": (
        "x-m: &m {memory: {steady: 1GiB}}\nmodels:\n  chat: {<<: *m}\n",
        "f.yaml:2: `memory` of chat comes from here through `<<`",
    ),
    "a merge of merges": (
        "x-m: &m {steady: 1GiB}\nx-n: &n {<<: [*m]}\nmodels:\n  chat: {memory: {<<: *n}}\n",
        "f.yaml:2: `steady` of chat comes from here through `<<`",
    ),
    "a variable": (
        "models:\n  chat:\n    memory:\n      steady: ${env:SIZE}\n",
        "f.yaml:5: chat.memory.steady is ${env:SIZE}: set that variable",
    ),
    "a block of text": (
        "models:\n  chat:\n    memory:\n      steady: |\n        1GiB\n",
        "f.yaml:5: chat.memory.steady is not written as one",
    ),
}


@pytest.mark.parametrize("name", sorted(SHARED))
def test_what_others_share_is_refused_with_its_place(name: str) -> None:
    text, message = SHARED[name]
    with pytest.raises(EditError) as refused:
        set_memory(HEAD + text, "f.yaml", "chat", STEADY)
    assert str(refused.value).startswith(message)


def test_a_merge_that_says_nothing_of_memory_is_no_hindrance() -> None:
    text = "x-m: &m {priority: high}\nmodels:\n  chat:\n    <<: *m\n"
    assert set_memory(text, "f", "chat", STEADY) == text + "    memory: {steady: 4.3GiB}\n"


def test_the_right_file_of_several_is_found(tmp_path: Path) -> None:
    entry = "{engine: command, command: [x, '${port}']}"
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.yaml").write_text(HEAD + f"models:\n  {name}: {entry}\n")
    edit = plan_edit(tmp_path, "b", STEADY, {})
    write_edit(edit)
    assert edit.path == tmp_path / "b.yaml"
    assert "4.3GiB" in (tmp_path / "b.yaml").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.yaml", "b.yaml", "c.yaml"]
    assert edit.diff.splitlines() == [
        f"--- {tmp_path}/b.yaml",
        f"+++ {tmp_path}/b.yaml",
        "@@ -2,2 +2,2 @@",
        " models:",
        f"-  b: {entry}",
        f"+  b: {entry[:-1]}, memory: {{steady: 4.3GiB}}}}",
    ]
    with pytest.raises(EditError, match="no file of it holds the model d"):
        plan_edit(tmp_path, "d", STEADY, {})


def test_mode_and_link_are_kept_and_a_later_change_is_not_overwritten(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "desk.yaml", tmp_path / "desk.yaml"
    real.parent.mkdir()
    real.write_text(manifest("    memory: {steady: 1GiB}\n"))
    real.chmod(0o640)
    link.symlink_to(real)
    edit = plan_edit(link, "chat", STEADY, {})
    real.write_text(real.read_text() + "# saved meanwhile\n")
    with pytest.raises(EditError, match="changed meanwhile"):
        write_edit(edit)
    assert os.listdir(real.parent) == ["desk.yaml"]
    write_edit(plan_edit(link, "chat", STEADY, {}))
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert real.read_text().endswith("# saved meanwhile\n")
    assert "steady: 4.3GiB" in real.read_text()


def test_a_value_the_manifest_would_refuse_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(manifest("    memory: {steady: 1GiB, peak: 2GiB}\n"))
    with pytest.raises(EditError, match="would be refused"):
        plan_edit(tmp_path / "desk.yaml", "chat", STEADY, {})


def parsed(text: str) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return document


KEYS = {
    "priority": ["priority: high"],
    "aliases": ["aliases: [gpt, claude]", "aliases:\n      - gpt\n      - claude  # c"],
    "context": ["context: {max_tokens: 512}", "context:\n      max_tokens: 512   # short\n      slots: 2"],
    "env": ["env: {A: |-\n      text}", "env:\n      A: |\n        one\n\n        two", "env: {}"],
    "memory": [
        "memory: {}",
        "memory: {mode: mlock}",
        "memory:\n      mode: mlock",
        "memory:\n      steady: auto # s",
    ],
    "args": ["args: [\"--a # b\", 'it''s']", "args: [\n      x,   # one\n      y\n    ]"],
}


@given(
    st.permutations(sorted(KEYS)),
    st.data(),
    st.lists(st.sampled_from(["\n", "    # a remark\n", ""]), min_size=7, max_size=7),
)
def test_whatever_the_layout_one_value_changes_and_no_line_is_lost(
    order: list[str], data: st.DataObject, between: list[str]
) -> None:
    """Any order of keys in any style, with comments and blank lines between them."""
    chosen = order[: data.draw(st.integers(0, len(order)))]
    lines = [data.draw(st.sampled_from([t for t in KEYS[key] if "text}" not in t])) for key in chosen]
    body = "".join(f"{gap}    {line}\n" for gap, line in zip(between, lines, strict=False))
    text = manifest(body)
    after = set_memory(text, "f", "chat", STEADY)
    gone, come = changed(text, after)
    assert len(come) == 1
    assert len(gone) <= 1
    assert "4.3GiB" in come[0]
    meaning, expected = parsed(after), parsed(text)
    expected["models"]["chat"].setdefault("memory", {})["steady"] = "4.3GiB"
    assert meaning == expected
    again = set_memory(after, "f", "chat", {"steady": "9GiB"})
    assert again == after.replace("4.3GiB", "9GiB")
