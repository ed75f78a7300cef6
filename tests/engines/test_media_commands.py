"""Speech, images, Ollama: the exact command line and environment of a bare and of a rich launch, as golden texts."""

from pathlib import Path

import pytest

from golden_files import assert_golden
from media_specs import ENGINES, bare, rich
from reconciler.engines import devices, registry
from reconciler.engines.base import Command


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "threads", lambda spec: spec.device.threads or 4)


def shown(title: str, command: Command, root: Path) -> str:
    lines = [f"# {title}", *(f"    {word}" for word in command.argv), f"cwd {command.cwd}"]
    lines += [f"env {name}={value}" for name, value in sorted(command.env.items())]
    lines += [f"not inherited {' '.join(command.without) or '-'}"]
    lines += [f"cpus {command.cpus} nice {command.nice}"]
    return "\n".join(lines).replace(str(root), "/T") + "\n"


@pytest.mark.parametrize("name", ENGINES)
def test_command_lines(name: str, tmp_path: Path) -> None:
    engine = registry.get(name)
    texts = []
    for title, make in (("bare", bare), ("rich", rich)):
        root = tmp_path / title
        spec = make(name, root)
        assert engine.check(spec) == ()
        texts.append(shown(title, engine.command(spec, 18001), root))
    assert_golden(f"engine-{name}.txt", "\n".join(texts))


@pytest.mark.parametrize("name", ENGINES)
def test_a_bare_launch_can_be_started_and_says_what_is_not_known(name: str, tmp_path: Path) -> None:
    found = registry.get(name).preflight(bare(name, tmp_path))
    assert found.reason is None, found.message
    assert any("was checked with" in note for note in found.notes)
    assert found.steady or "memory.steady" in found.message or name == "sd.cpp"
