"""Shortening prompts is for models that are asked in conversations."""

from pathlib import Path

import pytest

from manifest_texts import HEAD, accept, refuse
from reconciler.core.launch import Role
from reconciler.manifest.applied import GENERATING

OTHERS = [role.value for role in Role if role not in GENERATING]
START = "{engine: command, command: [x]"


def text(role: str, overflow: str, defaults: str = "{}") -> str:
    context = f", context: {{max_tokens: 512{overflow}}}"
    return f"{HEAD}defaults: {defaults}\nmodels:\n  a: {START}, role: {role}{context}}}\n  c: {START}}}\n"


@pytest.mark.parametrize("overflow", ["trim", "summarize, summarizer: c"])
@pytest.mark.parametrize("role", OTHERS)
def test_it_is_refused_where_it_has_no_effect(role: str, overflow: str, tmp_path: Path) -> None:
    written = text(role, f", overflow: {overflow}")
    (found,) = refuse(tmp_path, written)
    line = written.splitlines()[found.line - 1]
    assert (line[found.col - 1 :].startswith(overflow.partition(",")[0]), found.code) == (True, "overflow")
    assert f"has no effect: nothing is left out of requests to a model whose role is {role}" in found.message


@pytest.mark.parametrize("role", sorted(GENERATING))
def test_it_is_taken_where_it_has_one(role: str, tmp_path: Path) -> None:
    accept(tmp_path, text(role, ", overflow: trim"))


@pytest.mark.parametrize("role", OTHERS)
def test_a_default_is_meant_for_others_and_refusing_is_what_is_done(role: str, tmp_path: Path) -> None:
    accept(tmp_path, text(role, "", "{context: {overflow: trim}}"))
    accept(tmp_path, text(role, ", overflow: reject"))
