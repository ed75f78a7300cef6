"""How llama.cpp's slots are saved and restored, what is not believed of its answers, and where it cannot be done."""

import re
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_gguf import RandomModel, write_random
from reconciler.core.launch import LaunchSpec, LoraAdapter, Role
from reconciler.engines.base import EngineError, Saved, Server, Trial
from reconciler.engines.llama import server as llama_server
from reconciler.engines.llama import state as llama_state
from reconciler.engines.llama.state import LlamaSaver
from reconciler.engines.llama.state_file import tokens_in
from reconciler.engines.llama_cpp import ENGINE
from scripted_server import Scripted, scripted

pytestmark = pytest.mark.anyio
#: The command line of a server of the user's, which is not there: nothing is known of its build.
OWN: Final = ("llama-server",)


def slot(number: int, tokens: int | None, busy: bool = False) -> dict[str, Any]:
    """Return a slot as GET /slots shows it; one that was never used has no count."""
    held = {} if tokens is None else {"n_prompt_tokens": tokens, "n_prompt_tokens_cache": 0}
    return {"id": number, "n_ctx": 4096, "is_processing": busy, **held}


@asynccontextmanager
async def serving(routes: dict[str, list[Any]]) -> AsyncIterator[tuple[Scripted, Server]]:
    """Give a scripted server and the way to ask it."""
    with scripted(routes) as found:
        async with httpx.AsyncClient(trust_env=False) as client:
            spec = LaunchSpec("m", "llama.cpp", weights="/w.gguf")
            yield found, Server(spec, found.url, client, "key")


def file_of(folder: Path, number: int, tokens: list[int]) -> int:
    """Write a slot's file as a build of autumn 2026 does; return its bytes."""
    words = [0xFFFFFFFF, 1, len(tokens), *tokens, 0]
    data = struct.pack(f"<4sII{len(words)}I", b"qsgg", 4, len(words), *words) + b"kv" * 100
    return (folder / f"slot-{number}.bin").write_bytes(data)


# -- saving ------------------------------------------------------------------------------------------------------------


async def test_each_slot_with_a_conversation_is_saved(tmp_path: Path) -> None:
    size = file_of(tmp_path, 1, list(range(100)))
    file_of(tmp_path, 0, [])
    routes: dict[str, list[Any]] = {
        "GET /slots": [(200, [slot(0, None), slot(1, 100), slot(2, 9)])],
        "POST /slots/0": [(200, {"n_saved": 0, "n_written": 40})],
        "POST /slots/1": [(200, {"n_saved": 100, "n_written": size})],
        "POST /slots/2": [(200, {"n_saved": 9, "n_written": 80})],
    }
    async with serving(routes) as (found, server):
        assert await LlamaSaver().save(server, tmp_path) == Saved(("slot-1.bin",), 100)
        assert [r.query for r in found.asked("POST /slots/1")] == ["action=save"]
        assert found.bodies("POST /slots/1") == [{"filename": "slot-1.bin"}]
        assert found.asked("POST /slots/1")[0].headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            (200, {"n_saved": 0, "n_written": 40}),
            "slot 1 holds 100 tokens, but the server saved none of them",
        ),
        ((200, {"n_saved": 100, "n_written": 10**9}), "the server says it wrote 1000000000 bytes"),
        ((501, {"error": {"message": "not supported"}}), "answers 501: not supported"),
        (0, "got no answer"),
    ],
)
async def test_an_answer_is_not_believed_without_its_file(tmp_path: Path, answer: Any, said: str) -> None:
    file_of(tmp_path, 1, list(range(100)))
    routes: dict[str, list[Any]] = {"GET /slots": [(200, [slot(1, 100)])], "POST /slots/1": [answer]}
    async with serving(routes) as (_, server):
        with pytest.raises(EngineError, match=said):
            await LlamaSaver().save(server, tmp_path)


async def test_a_file_that_is_not_there_is_no_state(tmp_path: Path) -> None:
    routes: dict[str, list[Any]] = {
        "GET /slots": [(200, [slot(1, 100)])],
        "POST /slots/1": [(200, {"n_saved": 100, "n_written": 5})],
    }
    async with serving(routes) as (_, server):
        with pytest.raises(EngineError, match="the file has 0"):
            await LlamaSaver().save(server, tmp_path)


async def test_a_slot_that_computes_on_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_state, "BUSY_SECONDS", 0.2)
    size = file_of(tmp_path, 0, list(range(100)))
    routes: dict[str, list[Any]] = {
        "GET /slots": [(200, [slot(0, 100), slot(1, 900, busy=True)])],
        "POST /slots/0": [(200, {"n_saved": 100, "n_written": size})],
    }
    async with serving(routes) as (found, server):
        assert await LlamaSaver().save(server, tmp_path) == Saved(("slot-0.bin",), 100)
        assert len(found.asked("GET /slots")) > 1
        assert found.asked("POST /slots/1") == []


async def test_a_server_that_served_nobody_has_nothing_to_keep(tmp_path: Path) -> None:
    routes: dict[str, list[Any]] = {
        "GET /slots": [(200, [slot(0, 31)])],
        "POST /slots/0": [(200, {"n_saved": 31})],
    }
    async with serving(routes) as (_, server):
        assert await LlamaSaver().save(server, tmp_path) is None


# -- restoring ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("restored", "said"), [(0, "restored nothing into slot 1"), (90, "100 tokens were saved, but")]
)
async def test_fewer_tokens_than_were_saved_are_no_restore(tmp_path: Path, restored: int, said: str) -> None:
    routes: dict[str, list[Any]] = {"POST /slots/1": [(200, {"n_restored": restored})]}
    async with serving(routes) as (_, server):
        with pytest.raises(EngineError, match=said):
            await LlamaSaver().restore(server, tmp_path, Saved(("slot-1.bin",), 100))


@pytest.mark.parametrize("name", ["../slot-1.bin", "slot-x.bin", "other"])
async def test_only_files_of_slots_are_named_to_the_server(tmp_path: Path, name: str) -> None:
    async with serving({}) as (found, server):
        with pytest.raises(EngineError, match="is no file of a slot"):
            await LlamaSaver().restore(server, tmp_path, Saved((name,), 100))
        assert found.asked() == []


@pytest.mark.parametrize(
    ("arch", "sent", "cached", "reused"),
    [("llama", 256, 255, 255), ("llama", 256, 0, 0), ("llama", 256, 100, 0), ("mamba", 400, 390, 390)],
)
async def test_it_is_tried_with_the_saved_tokens_and_restored_anew(
    tmp_path: Path, arch: str, sent: int, cached: int, reused: int
) -> None:
    """A model that goes on from certain places only is tried with all of them."""
    file_of(tmp_path, 0, list(range(64)))
    file_of(tmp_path, 1, list(range(400)))
    weights = write_random(RandomModel("w", arch=arch, layers=1), tmp_path)
    routes: dict[str, list[Any]] = {
        "POST /slots/0": [(200, {"n_restored": 64})],
        "POST /slots/1": [(200, {"n_restored": 400})],
        "POST /completion": [(200, {"timings": {"cache_n": cached}})],
    }
    async with serving(routes) as (found, server):
        server = replace(server, spec=replace(server.spec, weights=str(weights)))
        saver = LlamaSaver()
        assert await saver.reused(server) is None  # nothing was restored
        await saver.restore(server, tmp_path, Saved(("slot-0.bin", "slot-1.bin"), 464))
        assert await saver.reused(server) == Trial(reused, sent)
        [body] = found.bodies("POST /completion")
        assert (body["prompt"], body["id_slot"], body["n_predict"]) == (list(range(sent)), 1, 1)
        assert [r.route for r in found.asked()][-2:] == ["POST /completion", "POST /slots/1"]


# -- the file ----------------------------------------------------------------------------------------------------------


def packed(words: list[int], magic: bytes = b"qsgg", count: int | None = None) -> bytes:
    return struct.pack(
        f"<4sII{len(words)}I",
        magic,
        2,
        len(words) if count is None else count,
        *[w & 0xFFFFFFFF for w in words],
    )


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        (packed([5, 6, 7]) + b"state", [5, 6, 7]),
        (packed([-1, 1, 2, 8, 9, 0]) + b"state", [8, 9]),
        (packed([-1, 2, 2, 8, 9, 0]), None),  # a form nobody knows yet
        (packed([-1, 1, 9, 8]), None),
        (packed([-1, 1, 2, 8, -1]), None),  # an image has no token
        (packed([-1]), None),
        (packed([5], magic=b"nsgg"), None),
        (packed([5], count=1 << 30), None),
        (packed([], count=0), None),
        (b"", None),
    ],
)
def test_the_tokens_are_at_the_beginning_of_the_file(
    tmp_path: Path, content: bytes, tokens: list[int] | None
) -> None:
    (tmp_path / "f").write_bytes(content)
    assert tokens_in(tmp_path / "f") == tokens
    assert tokens_in(tmp_path / "missing") is None


@given(st.binary(max_size=200))
def test_any_bytes_are_tokens_or_none(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(b"qsgg\x02\0\0\0" + content)
    found = tokens_in(path)
    assert found is None or all(0 <= token < 1 << 24 for token in found)


# -- where it can be done ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return the path of small weights of an architecture."""
    folder = tmp_path_factory.mktemp("weights")
    shapes = {
        "llama": RandomModel("llama", layers=1),
        "gemma3": RandomModel("gemma3", arch="gemma3", layers=6, window=128),
        "mamba": RandomModel("mamba", arch="mamba", layers=1),
    }
    made: dict[str, str] = {}

    def find(arch: str) -> str:
        if arch not in made:
            made[arch] = str(write_random(shapes[arch], folder))
        return made[arch]

    return find


@pytest.mark.parametrize(
    ("arch", "more", "said"),
    [
        ("llama", {}, None),
        ("llama", {"command": OWN}, None),
        ("gemma3", {}, None),
        ("mamba", {}, None),
        ("gemma3", {"command": OWN}, "it has sliding windows: llama-server says .* with --swa-full"),
        ("gemma3", {"command": OWN, "args": ("--swa-full",)}, None),
        ("gemma3", {"command": OWN, "env": (("LLAMA_ARG_SWA_FULL", "1"),)}, None),
        ("mamba", {"command": OWN, "args": ("--swa-full",)}, "it has recurrent layers: [^;]*$"),
        ("mamba", {"args": ("--ctx-checkpoints", "0")}, "leaves no place to go on from"),
        ("llama", {"role": Role.EMBEDDING}, "it computes vectors"),
        ("llama", {"args": ("--embeddings",)}, "it computes vectors"),
        ("llama", {"args": ("--mmproj", "p.gguf")}, "with a projector"),
        ("llama", {"projector": "/p.gguf"}, "with a projector"),
        ("llama", {"args": ("--slot-save-path", "/x/")}, "its folder is chosen by reconcile"),
        ("llama", {"args": ("--no-slots",)}, "--no-slots"),
        ("llama", {"command": OWN, "env": (("LLAMA_ARG_ENDPOINT_SLOTS", "0"),)}, "--no-slots"),
        ("llama", {"args": ("--no-cache-prompt",)}, "each prompt is computed anew"),
        ("llama", {"args": ("--sleep-idle-seconds", "60")}, "has thrown its state away"),
        ("llama", {"args": ("--sleep-idle-seconds", "-1")}, None),
        ("llama", {"weights": "/nowhere.gguf"}, "/nowhere.gguf"),
    ],
)
def test_where_a_state_cannot_be_kept_the_reason_is_said(
    weights: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    more: dict[str, Any],
    said: str | None,
) -> None:
    monkeypatch.setattr(llama_server, "embedded_version", lambda: "2026.10.11549")
    monkeypatch.setattr("reconciler.engines.programs.resolve", lambda spec, name: None)
    spec = replace(LaunchSpec("m", "llama.cpp", weights=weights(arch), saves_state=True), **more)
    found = LlamaSaver().refuses(spec)
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert re.search(said, found)


def test_an_embedded_server_before_the_places_is_as_any_other(
    weights: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_server, "embedded_version", lambda: "2026.9.11021")
    monkeypatch.setattr("reconciler.engines.programs.resolve", lambda spec, name: None)
    spec = LaunchSpec("m", "llama.cpp", weights=weights("gemma3"), saves_state=True)
    assert "sliding windows" in (LlamaSaver().refuses(spec) or "")


BARE: Final = LaunchSpec("m", "llama.cpp", weights="/w.gguf", context_tokens=2048, saves_state=True)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"context_tokens": 4096}, False),
        ({"slots": 2}, False),
        ({"cache_type": "q8_0"}, False),
        ({"args": ("-kvu",)}, False),
        ({"args": ("-ctv", "q8_0")}, False),
        ({"args": ("--flash-attn", "off")}, False),
        ({"args": ("--rope-freq-base", "1000000")}, False),
        ({"args": ("--lora", "a.gguf")}, False),
        ({"adapters": (LoraAdapter("/a.gguf", 0.5),)}, False),
        ({"draft": "/d.gguf"}, False),
        ({"command": ("llama-server", "--override-kv", "a=b:1")}, False),
        ({"args": ("--temp", "0.2")}, True),
        ({"port": 9000}, True),
        ({"env": (("HOME", "/tmp"),)}, True),
    ],
)
def test_the_setup_is_what_a_file_depends_on(changed: dict[str, Any], same: bool) -> None:
    saver = LlamaSaver()
    assert (saver.setup(replace(BARE, **changed)) == saver.setup(BARE)) is same


@pytest.mark.parametrize("folder", ["/state/m/files", "/state/m/files/"])
def test_the_server_is_told_the_folder_with_a_slash(folder: str) -> None:
    """Older builds put folder and file name together as they are."""
    argv = ENGINE.command(BARE, 9000, folder).argv
    assert argv[argv.index("--slot-save-path") + 1] == "/state/m/files/"
    assert "--slot-save-path" not in ENGINE.command(BARE, 9000).argv


def test_only_a_server_that_was_started_for_it_is_asked() -> None:
    assert ENGINE.saver(BARE) is not None
    assert ENGINE.saver(replace(BARE, saves_state=False)) is None
