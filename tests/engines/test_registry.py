"""Which engines there are, and that each keeps the one interface."""

import importlib.util
import sys
from pathlib import Path

import pytest

import reconciler.engines
from reconciler.core.launch import LaunchSpec
from reconciler.engines import registry
from reconciler.engines.base import Engine


def test_the_engines_of_this_release() -> None:
    assert {"command", "llama.cpp", "python"} <= set(registry.names())


@pytest.mark.parametrize("name", registry.names())
def test_an_engine_knows_its_name_and_finds_a_bare_launch_wanting(name: str) -> None:
    engine = registry.get(name)
    bare = LaunchSpec("m", name)
    assert engine.name == name
    assert engine.check(bare)
    assert engine.preflight(bare).reason is not None


def test_an_unknown_engine_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        registry.get("vllm-of-tomorrow")


def test_a_new_engine_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from reconciler.engines.command import CommandEngine\n"
    text += "class Other(CommandEngine):\n    name = 'other'\nENGINE = Other()\n"
    (tmp_path / "other_for_test.py").write_text(text)
    monkeypatch.setattr(reconciler.engines, "__path__", [*reconciler.engines.__path__, str(tmp_path)])
    fresh = _fresh_registry()
    monkeypatch.delitem(sys.modules, "reconciler.engines.other_for_test")
    assert fresh == tuple(sorted((*registry.names(), "other")))


def _fresh_registry() -> tuple[str, ...]:
    """Scan again in a copy of the module, so that the shared registry keeps what it has found."""
    spec = importlib.util.spec_from_file_location("reconciler.engines.registry", registry.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names: tuple[str, ...] = module.names()
    engine: Engine = module.get("other")
    assert engine.name == "other"
    return names
