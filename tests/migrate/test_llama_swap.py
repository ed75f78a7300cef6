"""Configurations of llama-swap: the manifest and the report of each, whole; every manifest is one."""

from functools import cache
from pathlib import Path

import pytest

from golden_files import assert_golden
from reconciler.cli.imports import report
from reconciler.core.memory import Memory
from reconciler.migrate import check
from reconciler.migrate.converted import Converted
from reconciler.migrate.llama_swap.convert import convert
from reconciler.render.migrate_text import import_text

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
