"""Whatever a configuration is made to: a manifest comes of it that loads, or reasons why none does; no traceback."""

import doctest
import importlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifest_mutants import mutant
from ollama_folder import library, put
from reconciler.core.memory import Memory
from reconciler.migrate import check
from reconciler.migrate.finding import Kind
from reconciler.migrate.llama_swap.convert import convert
from reconciler.migrate.llama_swap.values import Section
from reconciler.migrate.ollama import convert as ollama
from tiny_gguf import write_llama

TEXTS = [path.read_text() for path in sorted(Path(__file__).with_name("llama_swap").glob("*.yaml"))]
MACHINE = Memory(total=64 << 30, available=60 << 30)
NOWHERE = Path("/no/such/desk")


@given(draw=st.randoms(use_true_random=False), text=st.sampled_from(TEXTS))
def test_a_mutant_becomes_a_manifest_or_is_refused_with_a_place(draw: random.Random, text: str) -> None:
    made = convert(mutant(draw, text), "c.yaml", NOWHERE, {"HOME": "/home/me"}, MACHINE)
    if made.text:
        applied = check.load(made.text, NOWHERE, made.secrets)
        assert {spec.name for spec in applied.manifest.models} == set(made.models)
    else:
        assert made.refused or any(found.kind is Kind.ERROR for found in made.findings)


@pytest.mark.parametrize(
    "sets", [{"s": "(" * 400 + "a" + ")" * 400}, {f"s{n}": f"+s{n + 1}" for n in range(400)} | {"s400": "a"}]
)
def test_sets_in_sets_in_sets_are_refused(sets: dict[str, str]) -> None:
    config = json.dumps({"models": {"a": {"cmd": "srv --port ${PORT}"}}, "matrix": {"sets": sets}})
    made = convert(config.encode(), "c.yaml", NOWHERE, {}, MACHINE)
    assert "stand in each other more than 50 deep" in str([f.what for f in made.findings])


def test_macros_that_double_each_other_end() -> None:
    lines = ["macros:", "  m0: llama-server"]
    lines += [f"  m{n}: ${{m{n - 1}}} ${{m{n - 1}}}" for n in range(1, 60)]
    config = "\n".join([*lines, "models: {a: {cmd: '${m59} --port ${PORT}'}}"]).encode()
    made = convert(config, "c.yaml", NOWHERE, {}, MACHINE)
    assert made.text == ""
    assert any("256 KiB of text at most" in found.advice for found in made.findings)


@pytest.mark.parametrize("second", ['"Cafe\u0301": {CMD}', '"b": {CMD, aliases: ["Cafe\u0301"]}'])
def test_names_that_only_look_the_same_are_refused_at_their_place(second: str) -> None:
    config = f'models:\n  "Caf\u00e9": {{CMD}}\n  {second}\n'.replace(
        "CMD", 'cmd: "llama-server --port ${PORT}"'
    )
    made = convert(config.encode(), "c.yaml", NOWHERE, {}, MACHINE)
    errors = [found for found in made.findings if found.kind is Kind.ERROR]
    assert [(found.place, found.advice) for found in errors] == [("c.yaml:3:3", "rename one of the two")]
    assert "already, at c.yaml:2:3 (compared after Unicode normalisation)" in errors[0].what
    assert not made.text
    assert not made.refused


def test_the_models_are_gone_through_as_often_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    whole = Section.sections

    def sections(self: Section, key: str) -> Iterator[tuple[str, Section]]:
        asked.append(key)
        return whole(self, key)

    monkeypatch.setattr(Section, "sections", sections)

    def times(count: int) -> int:
        lines = [f"  m{n}: {{cmd: 'llama-server --port ${{PORT}} -m /m{n}.gguf'}}" for n in range(count)]
        made = convert("\n".join(["models:", *lines]).encode(), "c.yaml", NOWHERE, {}, MACHINE)
        assert len(made.models) == count
        return asked.count("models")

    once = times(1)
    assert times(20) == 2 * once


def test_a_name_that_no_manifest_can_have_leaves_the_other_models(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "a.gguf").read_bytes()
    put(tmp_path, library("fine", "1b"), model=model)
    put(tmp_path, library("bad\nname", "1b"), model=model)
    made = ollama.convert(tmp_path, {})
    assert made.models == ("fine:1b",)
    assert any(found.key == "bad\nname:1b" and "left out" in found.what for found in made.findings)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"layers": 5}', b'{"layers": [{}, 5, null]}', b"\xff", b"[" * 5000]
)
def test_a_damaged_manifest_of_ollamas_is_told(content: bytes, tmp_path: Path) -> None:
    put(tmp_path, library("fine", "1b"), model=write_llama(tmp_path / "a.gguf").read_bytes())
    put(tmp_path, library("odd", "1b"), tensor=b"").write_bytes(content)
    made = ollama.convert(tmp_path, {})
    assert made.models == ("fine:1b",)
    assert [found.kind for found in made.findings if found.key == "odd:1b"] == [Kind.LOST]


@pytest.mark.parametrize("config", [{"remote_host": 5}, {"model_format": None}, {"remote_model": ["x"]}])
def test_a_description_of_any_type_is_read(config: dict[str, object], tmp_path: Path) -> None:
    model = write_llama(tmp_path / "a.gguf").read_bytes()
    put(
        tmp_path,
        library("odd", "1b"),
        config,
        model=model,
        params=json.dumps({"num_ctx": "many", "stop": 5}).encode(),
    )
    made = ollama.convert(tmp_path, {})
    assert made.text or any(found.kind is Kind.LOST for found in made.findings)


@pytest.mark.parametrize(
    "name",
    ["hints", "llama_swap.macros", "llama_swap.paths", "llama_swap.settings", "ollama.parameters", "secret"],
)
def test_the_examples_in_the_code_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"reconciler.migrate.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
