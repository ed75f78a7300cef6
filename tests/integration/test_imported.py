"""What was imported is run: llama-swap's names, swaps for want of room, a pin; Ollama's files where they lie."""

from pathlib import Path

import pytest

from manager import Manager
from ollama_folder import TEMPLATE, library, put, settings
from reconciler.cli import main
from support import FAKE
from tiny_gguf import write_llama

CONFIG = """\
# What ran under llama-swap.
macros:
  fake: {fake} --port ${{PORT}}
models:
  # 60 MB
  alpha:
    cmd: ${{fake}} --tag {alpha} --name ${{MODEL_ID}}
    aliases: [gpt-4o]
  # 60 MB
  beta:
    cmd: |
      ${{fake}} \\
        # its tag
        --tag {beta}
    env: [WHO=beta]
  # 30 MB
  embed:
    cmd: ${{fake}} --tag {embed}
    aliases: [text-embedding-3-small]
  tiny:
    cmd: llama-server --port ${{PORT}} -m {tiny} -c 512 --temp 0
groups:
  big: {{swap: true, exclusive: true, members: [alpha, beta]}}
  forever: {{persistent: true, swap: false, exclusive: false, members: [embed]}}
hooks: {{on_startup: {{preload: [embed]}}}}
"""


@pytest.mark.engine
def test_an_imported_configuration_serves_and_swaps_as_before(
    manager: Manager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp")
    source = tmp_path / "llama-swap" / "config.yaml"
    tiny = write_llama(source.parent / "tiny.gguf")
    tags = {name: manager.tag(name) for name in ("alpha", "beta", "embed")}
    source.write_text(CONFIG.format(fake=" ".join(FAKE), tiny=tiny.name, **tags))

    assert main(["import", "llama-swap", str(source), "--out", str(manager.file)]) == 2  # sizes from comments
    assert "asking for alpha or beta makes llama-swap unload tiny" in capsys.readouterr().err
    ports = f"{manager.ports[0]}-{manager.ports[-1]}"
    machine = f"apiVersion: reconciler/v1\nmachine: {{memory: 140MiB, reserve: 0MiB, ports: {ports}}}\n"
    (manager.manifests / "machine.yaml").write_text(machine + "models: {}\n")

    manager.start()
    embed = manager.wait_ready("embed")
    for name in ("gpt-4o", "beta", "alpha", "text-embedding-3-small", "tiny"):
        assert manager.ask(name).status_code == 200, name
    answer = manager.ask("tiny").json()
    assert answer["usage"]["completion_tokens"] >= 1
    assert manager.wait_ready("embed") == embed
    steps = [step for step in manager.steps() if "embed" not in step and "tiny" not in step]
    for old, new in (("alpha", "beta"), ("beta", "alpha")):
        at = steps.index(f"load {new}", steps.index(f"loaded {old}"))
        assert steps[at - 2 : at] == [f"evict {old}", f"evicted {old}"]
    assert manager.processes("beta") == []


@pytest.mark.engine
def test_ollamas_models_are_served_from_where_they_lie(
    manager: Manager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp")
    models = tmp_path / "ollama"
    weights = write_llama(tmp_path / "tiny.gguf").read_bytes()
    put(
        models,
        library("llama3", "8b"),
        model=weights,
        template=TEMPLATE,
        params=settings(num_ctx=512, temperature=0),
    )
    put(
        models,
        library("llama3", "latest"),
        model=weights,
        template=TEMPLATE,
        params=settings(num_ctx=512, temperature=0),
    )
    assert main(["import", "ollama", str(models), "--out", str(manager.file)]) == 0
    assert "1 model in" in capsys.readouterr().err
    manager.start()
    for name in ("llama3", "llama3:8b", "llama3:latest"):
        answer = manager.ask(name)
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"]["completion_tokens"] >= 1
    assert manager.steps() == ["load llama3:8b", "loaded llama3:8b"]
