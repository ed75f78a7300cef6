"""docs/engines.md says what is so: the roles of its table are those of the code, and its example is an engine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import text_engines
from hf_files import write_model
from manifest_texts import HEAD
from reconciler.engines import registry
from reconciler.manifest.load import load_manifest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "engines.md").read_text()
ROWS = dict(re.findall(r"^\| \[([\w.-]+)\]\([^)]*\) \| ([^|]+) \|", PAGE.partition("## ")[0], re.MULTILINE))


@pytest.mark.parametrize("name", registry.names())
def test_the_roles_of_the_table_are_those_of_the_code(name: str) -> None:
    roles = {role.value for role in registry.get(name).roles}
    assert (ROWS[name] == "every role") if len(roles) == 9 else (set(ROWS[name].split(", ")) == roles)


def test_the_example_is_an_engine(tmp_path: Path) -> None:
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    file = tmp_path / "parrot.py"
    file.write_text(code)
    config = ["--config", str(ROOT / "pyproject.toml")]
    for words in (["check", "--no-cache", *config], ["format", "--check", "--no-cache", *config]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *words, str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = {"__name__": "parrot"}
    exec(compile(code, str(file), "exec"), found)
    parrot = found["ENGINE"]

    class Engines:
        """The one of the page."""

        def names(self) -> tuple[str, ...]:
            return ("parrot",)

        def get(self, name: str) -> object:
            return parrot

    weights = write_model(tmp_path / "w", text_engines.LLAMA)
    model = f"{{engine: parrot, weights: {weights}, context: {{slots: 2, max_tokens: 64}}}}"
    manifest = tmp_path / "m.yaml"
    manifest.write_text(f"{HEAD}models:\n  m: {model}\n")
    launch = load_manifest(manifest, environ={}, engines=Engines()).launches["m"]  # type: ignore[arg-type]
    assert (launch.slots, parrot.parallel(launch)) == (2, 3)  # type: ignore[attr-defined]
    assert parrot.foreseen(launch).steady is not None  # type: ignore[attr-defined]
