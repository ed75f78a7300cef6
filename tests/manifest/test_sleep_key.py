"""`sleep` is for models whose engine can wake them again."""

from pathlib import Path

import pytest

from manifest_texts import HEAD, PlainEngine, PlainEngines, accept, refuse
from reconciler.core.launch import LaunchSpec, Sleep
from reconciler.engines.base import Server, Sleeper
from reconciler.manifest.applied import Applied


class Dozes(Sleeper):
    """Sleeps, for all that is known."""

    async def sleep(self, server: Server) -> None:
        raise NotImplementedError

    async def wake(self, server: Server) -> None:
        raise NotImplementedError


class DozingEngine(PlainEngine):
    """One that can."""

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        return Dozes()


class Engines(PlainEngines):
    """`command` cannot sleep, `llama.cpp` can."""

    def get(self, name: str) -> PlainEngine:
        return DozingEngine(name) if name == "llama.cpp" else PlainEngine(name)


def text(engine: str, sleep: str, default: str = "off") -> str:
    model = f"{{engine: {engine}, command: [x]{sleep}}}"
    return f"{HEAD}defaults: {{sleep: {default}}}\nmodels:\n  a: {model}\n"


def sleeps(applied: Applied) -> tuple[bool, Sleep]:
    return applied.manifest.models[0].sleeps, applied.launches["a"].sleep


@pytest.mark.parametrize("level", ["light", "deep"])
def test_it_is_refused_at_its_key_where_nothing_could_wake_the_model(level: str, tmp_path: Path) -> None:
    written = text("command", f", sleep: {level}")
    (found,) = refuse(tmp_path, written, engines=Engines())
    line = written.splitlines()[found.line - 1]
    assert (line[found.col - 1 :].startswith(level), found.code) == (True, "engine")
    assert found.message == "command gives memory back only by ending"
    assert "sleep: off" in found.hint


@pytest.mark.parametrize(
    ("engine", "own", "default", "expected"),
    [
        ("llama.cpp", ", sleep: deep", "off", (True, Sleep.DEEP)),
        ("llama.cpp", "", "light", (True, Sleep.LIGHT)),
        ("llama.cpp", ", sleep: off", "light", (False, Sleep.OFF)),
        # A default is meant for those that can.
        ("command", "", "light", (False, Sleep.OFF)),
        ("command", ", sleep: off", "deep", (False, Sleep.OFF)),
    ],
)
def test_it_is_taken_where_it_has_an_effect(
    engine: str, own: str, default: str, expected: tuple[bool, Sleep], tmp_path: Path
) -> None:
    assert sleeps(accept(tmp_path, text(engine, own, default), engines=Engines())) == expected
