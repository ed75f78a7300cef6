"""What is built: a wheel with the whole package and nothing else, an sdist that can be built again."""

import importlib.util
import os
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def check() -> ModuleType:
    """Return tools/check_package.py as a module."""
    spec = importlib.util.spec_from_file_location("check_package", ROOT / "tools/check_package.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build both, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    program = "import hatchling.build as b; print(b.build_sdist({0!r})); print(b.build_wheel({0!r}))"
    command = [sys.executable, "-c", program.format(str(folder))]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {path.suffix: path for path in folder.iterdir()}
    return {"wheel": found[".whl"], "sdist": found[".gz"]}


def test_both_hold_what_they_should(check: ModuleType, built: dict[str, Path]) -> None:
    assert check.faults(built["wheel"]) == []
    assert check.faults(built["sdist"]) == []


def test_the_wheel_says_what_it_is(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = wheel.namelist()
        metadata = next(name for name in names if name.endswith("METADATA"))
        said = Parser().parsestr(wheel.read(metadata).decode())
        commit = wheel.read("reconciler/built_from.txt").decode().strip() if (ROOT / ".git").exists() else "-"
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert said["Version"] == stated["version"]
    assert said["License-Expression"] == "Apache-2.0"
    assert set(said.get_all("Provides-Extra") or ()) == set(stated["optional-dependencies"])
    assert len(commit.removesuffix("+dirty")) in (1, 7)
    assert {"reconciler/py.typed", "reconciler/dashboard/static/index.html"} <= set(names)


def test_what_is_missing_or_too_much_is_said(check: ModuleType) -> None:
    committed = ["reconciler/a.py", "reconciler/static/x.css", "tests/test_a.py"]
    names = ["reconciler/a.py", "tests/test_a.py", "reconciler-1.dist-info/METADATA"]
    assert check.wheel_faults(names, committed) == [
        "lacks reconciler/static/x.css",
        "holds tests/test_a.py, which is not part of the package",
        "lacks entry_points.txt",
        "lacks licenses/LICENSE",
    ]
    found = check.sdist_faults(["r-1/reconciler/a.py", "r-1/weights/m.gguf"], ["reconciler/a.py"])
    assert "holds weights/m.gguf, which is in no commit" in found
    assert "lacks schemas/" in found


def test_the_version_is_stated_once_in_the_end() -> None:
    import reconciler

    assert (
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == reconciler.__version__
    )
