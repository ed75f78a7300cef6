"""The weights fetcher, without a network: what is extracted, refused, kept, and linked."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CONTENT = bytes(range(256)) * 4000


def load_tool() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "tools/fetch_weights.py"
    spec = importlib.util.spec_from_file_location("fetch_weights", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fetch_weights"] = module
    spec.loader.exec_module(module)
    return module


tool: Any = load_tool()


def test_the_link_follows_the_cache_and_spares_a_real_folder(tmp_path: Path) -> None:
    for cache in ("one", "two", "two"):
        (tmp_path / cache).mkdir(exist_ok=True)
        assert tool.link(tmp_path / cache, tmp_path).readlink() == tmp_path / cache
    (tmp_path / "weights").unlink()
    (tmp_path / "weights").mkdir()
    with pytest.raises(tool.FetchError, match="in the way"):
        tool.link(tmp_path / "one", tmp_path)


def test_the_shipped_manifest_names_what_is_fetched() -> None:
    manifest = (Path(__file__).resolve().parents[2] / "manifests/models.yaml").read_text()
    assert f"../weights/{tool.SMOLLM2.folder}/model.gguf" in manifest
