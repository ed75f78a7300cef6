"""A directory of files is one manifest."""

from pathlib import Path

import pytest

from manifest_texts import HEAD, load
from reconciler.manifest import Diagnostic, ManifestError


def write(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(HEAD + text)
    return directory


def refused(directory: Path) -> tuple[Diagnostic, ...]:
    with pytest.raises(ManifestError) as caught:
        load(directory)
    return caught.value.diagnostics


def test_all_yaml_files_are_merged_and_others_are_not_read(tmp_path: Path) -> None:
    write(
        tmp_path, b="models: {two: {}}\n", a="machine: {memory: 8GiB}\n", c="models: {one: {idle_ttl: 9}}\n"
    )
    (tmp_path / "d.yml").write_text(f"{HEAD}defaults: {{idle_ttl: 5}}\n")
    for name in (".hidden.yaml", "x.yaml.bak", "notes.txt", "b.yaml~"):
        (tmp_path / name).write_text("broken: [")
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper", z="models: {three: {}}\n")
    applied = load(tmp_path)
    assert [(m.name, m.idle_ttl) for m in applied.manifest.models] == [("one", 9), ("two", 5)]
    assert applied.manifest.memory == 8 << 30
    assert applied.source.path == str(tmp_path)
    assert applied.source.files == tuple(str(tmp_path / n) for n in ("a.yaml", "b.yaml", "c.yaml", "d.yml"))


def test_a_model_defined_in_two_files_names_both_places(tmp_path: Path) -> None:
    write(tmp_path, a="models:\n  chat: {}\n", b="models:\n  other: {}\n  chat: {}\n")
    (found,) = refused(tmp_path)
    assert (found.file, found.line, found.col, found.code) == (
        str(tmp_path / "b.yaml"),
        4,
        3,
        "defined-twice",
    )
    assert f"{tmp_path}/a.yaml:3:3" in found.message


def test_a_section_may_be_repeated_only_word_for_word(tmp_path: Path) -> None:
    write(tmp_path, a="machine: {memory: 8GiB}\nmodels: {}\n", b="machine:\n  memory: 8GiB\n")
    assert load(tmp_path).manifest.memory == 8 << 30
    write(tmp_path, b="machine: {memory: 9GiB}\n")
    (found,) = refused(tmp_path)
    assert (found.file, found.line, found.code) == (str(tmp_path / "b.yaml"), 2, "defined-twice")
    assert f"{tmp_path}/a.yaml:2:1" in found.message


def test_the_faults_of_all_files_come_in_order(tmp_path: Path) -> None:
    write(tmp_path, a="models: [\n", b="models:\n  x: {prt: 1}\n  y: {port: x}\n", c="prot: 1\n")
    (tmp_path / "d.yaml").write_text("models: {}\n")
    found = refused(tmp_path)
    assert [(Path(d.file).name, d.line, d.code) for d in found] == [
        ("a.yaml", 3, "yaml-syntax"),
        ("b.yaml", 3, "unknown-key"),
        ("b.yaml", 4, "wrong-type"),
        ("c.yaml", 2, "unknown-key"),
        ("d.yaml", 1, "missing-key"),
    ]


def test_a_port_shared_across_files_names_both(tmp_path: Path) -> None:
    write(tmp_path, a="models: {x: {port: 9101}}\n", b="models: {y: {port: 9101}}\n")
    (found,) = refused(tmp_path)
    assert found.code == "port-clash"
    assert f"{tmp_path}/a.yaml:2:20" in found.message


def test_an_empty_file_among_others_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a="models: {}\n")
    (tmp_path / "b.yaml").write_text("")
    assert [(Path(d.file).name, d.code) for d in refused(tmp_path)] == [("b.yaml", "empty-file")]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    (empty,) = refused(tmp_path)
    assert (empty.file, empty.code) == (str(tmp_path), "no-manifest")
    (missing,) = refused(tmp_path / "nope.yaml")
    assert (missing.line, missing.code) == (0, "unreadable")
    assert missing.render().startswith(f"{tmp_path}/nope.yaml: error: ")


def test_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: reconciler/v2\nmodels: {}\n")
    (found,) = refused(tmp_path)
    assert (found.line, found.col, found.code, found.hint) == (
        1,
        13,
        "api-version",
        "write apiVersion: reconciler/v1",
    )
