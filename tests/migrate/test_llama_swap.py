"""Configurations of llama-swap: the manifest and the report of each, whole; every manifest is one."""

from functools import cache
from pathlib import Path

import pytest

from golden_files import assert_golden
from reconciler.cli.imports import report
from reconciler.core.memory import Memory
from reconciler.migrate import check
from reconciler.migrate.converted import Converted
from reconciler.migrate.finding import Kind
from reconciler.migrate.llama_swap.convert import convert
from reconciler.render.migrate_text import import_text
from tiny_further import write_projector
from tiny_gguf import write_llama

FOLDER = Path(__file__).with_name("llama_swap")
#: Where the configurations are said to lie: nothing is there.
DESK = Path("/no/such/desk")
ENVIRON = {
    "HOME": "/home/me",
    "SWAP_KEY": "sk-from-the-environment",
    "LLAMA_SERVER": "/opt/llama/llama-server",
    "LLAMA_FLAGS": "-ngl 99 --jinja",
}
MACHINE = Memory(total=64 << 30, available=60 << 30)
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
REFUSED = {"broken", "missing_members", "unknown_macros"}


@cache
def converted(name: str) -> Converted:
    data = (FOLDER / f"{name}.yaml").read_bytes()
    return convert(data, f"{name}.yaml", DESK, ENVIRON, MACHINE)


@pytest.mark.parametrize("name", NAMES)
def test_manifest_and_report(name: str) -> None:
    made = converted(name)
    assert bool(made.text) is (name not in REFUSED)
    if made.text:
        assert_golden(f"import-{name}.yaml", made.text)
    assert_golden(f"import-{name}.txt", import_text(report(made, f"{name}.yaml", None)) + "\n")


@pytest.mark.parametrize("name", sorted(set(NAMES) - REFUSED))
def test_every_manifest_is_one_and_has_every_model_that_is_not_said_to_be_left_out(name: str) -> None:
    made = converted(name)
    applied = check.load(made.text, DESK, {**ENVIRON, **made.secrets})
    assert tuple(sorted(made.models)) == tuple(spec.name for spec in applied.manifest.models)
    for secret in ("sk-", "hf_", "local-secret"):
        assert secret not in made.text
        assert not any(secret in f.what + f.advice for f in made.findings)


def test_weights_that_llama_cpp_fetched_are_found_in_its_caches(tmp_path: Path) -> None:
    config = b"models: {m: {cmd: 'llama-server --port ${PORT} -hf org/tiny-GGUF:Q8_0'}}"
    hub = tmp_path / ".cache/huggingface/hub/models--org--tiny-GGUF/snapshots/abc"
    write_llama(hub / "tiny-Q4_K_M.gguf")
    write_llama(hub / "tiny-Q8_0.gguf")
    write_projector(hub / "mmproj-tiny.gguf")
    text = convert(config, "c.yaml", DESK, {"HOME": str(tmp_path)}, MACHINE).text
    assert (
        f"weights: {hub / 'tiny-Q8_0.gguf'}\n    projector: {hub / 'mmproj-tiny.gguf'}\n    role: vision\n"
        in text
    )
    (hub / "tiny-Q8_0.gguf").rename(tmp_path / "elsewhere")
    assert "engine: command" in convert(config, "c.yaml", DESK, {"HOME": str(tmp_path)}, MACHINE).text
    older = write_llama(tmp_path / ".cache/llama.cpp/org_tiny-GGUF_tiny-Q8_0.gguf")
    assert f"weights: {older}\n" in convert(config, "c.yaml", DESK, {"HOME": str(tmp_path)}, MACHINE).text


def test_who_fits_together_is_told_by_the_files(tmp_path: Path) -> None:
    for name in "abc":
        write_llama(tmp_path / f"{name}.gguf")
    lines = [f"  {name}: {{cmd: 'llama-server --port ${{PORT}} -m {name}.gguf -c 512'}}" for name in "abc"]
    config = "\n".join(["models:", *lines]).encode()

    def told(memory: int) -> str:
        machine = Memory(total=memory << 20, available=memory << 20)
        found = convert(config, "c.yaml", tmp_path, ENVIRON, machine).findings
        return next(f.advice for f in found if f.kind is Kind.DIFFERS)

    assert "all of them do on this machine" in told(1000)
    assert "on this machine a and b do" in told(75)
    assert "on this machine no two of them do, so they are swapped as before" in told(45)
