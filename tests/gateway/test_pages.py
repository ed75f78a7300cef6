"""Timeline, the page of a model, its log, and who asks."""

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from gateway_rig import Rig, rig, snapshot
from history_samples import GIB, eviction, filled, load
from reconciler.board import Snapshot
from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Account, Instance, ModelSpec, Outcome, Plan, Reason, Verdict
from reconciler.gateway.model_page import LINES_MOST
from reconciler.gateway.views import standard_views
from reconciler.host.identity import identify
from reconciler.manifest.applied import ApiKey, GatewaySettings, Scope, Virtual
from reconciler.render.schemas import SCHEMAS
from reconciler.render.status_document import status_json
from reconciler.store import AsyncStore, Store
from reconciler.store.paths import DATABASE

pytestmark = pytest.mark.anyio
JSON = dict[str, Any]
CANARY = "CANARY-in-a-model"


def launch(model: str, **more: Any) -> LaunchSpec:
    values = {
        "command": ("serve", "--api-key", CANARY, "--port", "${port}"),
        "env": (("HF_TOKEN", CANARY), ("PLAIN", CANARY)),
        "cwd": "/",
        "args": (),
        **more,
    }
    return LaunchSpec(model, "command", **values)


def desk(folder: Path, *running: Instance) -> Snapshot:
    """Return a desk of three models, one with a slash in its name, with a log for each."""
    specs = tuple(ModelSpec(name, "d") for name in ("chat", "org/chat", "org/chat/log"))
    plan = Plan(
        1, 1, Account(), verdicts=tuple(Verdict(m.name, Outcome.COLD, Reason.NOT_WANTED) for m in specs)
    )
    made = snapshot(*specs, aliases={"gpt": "chat"}, plan=plan)
    launches = {m.name: launch(m.name) for m in specs}
    applied = replace(made.applied, launches=launches, virtual={"auto": Virtual("auto", ())})
    seen = replace(made.world.observation, instances=running)
    paths = {m.name: str(folder / f"{m.name.replace('/', '-')}.log") for m in specs}
    return replace(made, applied=applied, world=replace(made.world, observation=seen), log_paths=paths)


@asynccontextmanager
async def pages(folder: Path, *running: Instance) -> AsyncIterator[Rig]:
    """Serve a desk with a filled ledger."""
    store = await AsyncStore.open(filled(folder / DATABASE))
    try:
        async with rig(views=standard_views()) as r:
            r.publish(desk(folder, *running))
            r.board.ask = store.ask
            yield r
    finally:
        await store.close()


async def get(r: Rig, path: str, schema: str) -> JSON:
    """Return a document that is as its schema says."""
    answer = await r.client.get(path)
    assert answer.status_code == 200, answer.text
    found: JSON = answer.json()
    jsonschema.Draft202012Validator(SCHEMAS[schema]()).validate(found)
    return found


def own(model: str = "chat", digest: str = "d") -> Instance:
    """Return this very process as a model's."""
    me = identify(os.getpid())
    assert me is not None
    return Instance(model, digest, me.pid, me.started, 18100, True, 3 * GIB, 0, 0.0, 0.0)


# -- the timeline --------------------------------------------------------------------------------------------------


async def test_the_timeline_has_what_was_done_and_how_it_is_now(tmp_path: Path) -> None:
    async with pages(tmp_path, own()) as r:
        before = time.time()
        found = await get(r, "/api/v1/timeline?since=0", "timeline")
        assert found["since"] == 0
        assert before - 5 < found["from"] <= before <= found["to"]
        assert found["samples"][-1]["at"] == found["to"]
        assert found["samples"][-1]["models"] == {"chat": 3 * GIB}
        assert len(found["actions"]) == 16
        assert found["actions"] == sorted(found["actions"], key=lambda done: done["at"])
        assert {done["outcome"] for done in found["actions"]} == {
            "ready",
            "failed",
            "given-up",
            "gone",
            "asleep",
        }
        assert [d["model"] for d in found["actions"] if d["regretted"]] == ["chat"]
        failed = next(d for d in found["actions"] if d["outcome"] == "failed")
        assert (failed["action"], failed["detail"]) == ("load", "exit 1: cannot open")
        [rued] = [d for d in found["actions"] if d["regretted"]]
        assert (rued["for_model"], rued["detail"]) == ("coder", "4.0 GiB, idle 5m, wanted again after 12s")
        recent = await get(r, "/api/v1/timeline", "timeline")
        assert recent["since"] == pytest.approx(recent["to"] - 3600)


async def test_a_process_that_is_replaced_is_a_reload(tmp_path: Path) -> None:
    with Store(tmp_path / DATABASE) as store:
        for done in (
            eviction("chat", 100, reason="Drifted", for_model="", seconds=2.0),
            eviction("embed", 50, reason="Drifted", for_model=""),
        ):
            store.add_eviction(done)
        store.add_load(load("coder", 98))
        store.add_load(load("chat", 97))
        store.add_load(load("chat", 20))
    async with pages(tmp_path) as r:
        store_ = await AsyncStore.open(tmp_path / DATABASE)
        r.board.ask = store_.ask
        found = await get(r, f"/api/v1/timeline?since={load('chat', 200).at}", "timeline")
        await store_.close()
    assert [(d["action"], d["model"]) for d in found["actions"][-5:]] == [
        ("reload", "chat"),
        ("load", "coder"),
        ("reload", "chat"),
        ("evict", "embed"),
        ("load", "chat"),
    ]


@pytest.mark.parametrize("query", ["since=x", "since=-1", "since=nan"])
async def test_a_time_that_is_none_is_refused(query: str, tmp_path: Path) -> None:
    async with pages(tmp_path) as r:
        answer = await r.client.get(f"/api/v1/timeline?{query}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


# -- the page of a model -------------------------------------------------------------------------------------------


async def test_a_page_has_all_of_a_model(tmp_path: Path) -> None:
    async with pages(tmp_path) as r:
        found = await get(r, "/api/v1/models/gpt", "model")
        assert r.board.snapshot is not None
        in_status = next(
            m for m in status_json(r.board.snapshot, time.monotonic())["models"] if m["name"] == "chat"
        )
        assert found["model"] == in_status
        assert found["verdict"]["reason"] == "NotWanted"
        assert [one["outcome"] for one in found["loads"]].count("failed") == 1
        assert len(found["evictions"]) == 5
        assert found["use"]["requests"] >= 0
        shown = found["launch"]
        assert shown["argv"] == ["serve", "--api-key", "***", "--port", "18100"]
        assert {"HF_TOKEN", "PLAIN"} <= set(shown["environment"])
        assert (shown["engine"], shown["cwd"], shown["port"], shown["pid"]) == ("command", "/", None, None)
        assert (shown["digest"], shown["current"], shown["problem"]) == ("d", True, None)
        assert CANARY not in str(found)


async def test_a_process_says_itself_how_it_was_started(tmp_path: Path) -> None:
    async with pages(tmp_path, own()) as r:
        shown = (await get(r, "/api/v1/models/chat", "model"))["launch"]
        assert shown["argv"] == psutil.Process().cmdline()
        assert (shown["pid"], shown["port"], shown["current"]) == (os.getpid(), 18100, True)
        r.publish(desk(tmp_path, own(digest="older")))
        shown = (await get(r, "/api/v1/models/chat", "model"))["launch"]
        assert (shown["digest"], shown["current"]) == ("older", False)
        r.publish(desk(tmp_path, own("removed")))
        found = await get(r, "/api/v1/models/removed", "model")
        assert (found["launch"]["engine"], found["model"]["residency"]) == (None, None)


async def test_an_engine_that_cannot_say_what_it_starts_leaves_the_rest(tmp_path: Path) -> None:
    async with pages(tmp_path) as r:
        made = desk(tmp_path)
        broken = replace(launch("chat"), engine="of-nobody")
        r.publish(replace(made, applied=replace(made.applied, launches={"chat": broken})))
        shown = (await get(r, "/api/v1/models/chat", "model"))["launch"]
        assert shown["argv"] == []
        assert "of-nobody" in shown["problem"]


UNKNOWN = ("/api/v1/models/nobody", "/api/v1/models/nobody/log", "/api/v1/models/auto", "/api/v1/models/")


@pytest.mark.parametrize("path", UNKNOWN)
async def test_a_name_of_nobody_is_not_found(path: str, tmp_path: Path) -> None:
    async with pages(tmp_path) as r:
        answer = await r.client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] in ("model_not_found", "not_found")


async def test_what_only_a_post_does_is_told_to_a_get(tmp_path: Path) -> None:
    async with pages(tmp_path) as r:
        answer = await r.client.get("/api/v1/models/chat/load")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        answer = await r.client.post("/api/v1/models/chat")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_names_with_slashes(tmp_path: Path) -> None:
    async with pages(tmp_path) as r:
        for path, model in (
            ("org/chat", "org/chat"),
            ("org%2Fchat", "org/chat"),
            ("org%2Fchat%2Flog", "org/chat/log"),
        ):
            assert (await get(r, f"/api/v1/models/{path}", "model"))["model"]["name"] == model, path
        for path, model in (("org/chat/log", "org/chat"), ("org%2Fchat%2Flog/log", "org/chat/log")):
            assert (await get(r, f"/api/v1/models/{path}", "log"))["model"] == model, path


# -- the log -------------------------------------------------------------------------------------------------------


def written(folder: Path, lines: Sequence[bytes], name: str = "chat.log") -> None:
    (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))


async def test_the_last_lines_of_a_log_with_secrets_masked(tmp_path: Path) -> None:
    async with pages(tmp_path) as r:
        empty = await get(r, "/api/v1/models/chat/log", "log")
        assert (empty["lines"], empty["truncated"]) == ([], False)
        written(
            tmp_path,
            [
                b"--- start",
                b"argv: --api-key " + CANARY.encode() + b" --port 9",
                b"\x1b[31mred\x1b[0m " + CANARY.encode(),
                b" 10 %\r 99 %",
                b"Authorization: Bearer abcdef",
                b"\xff odd",
            ],
        )
        found = await get(r, "/api/v1/models/gpt/log", "log")
        assert found["lines"] == [
            "--- start",
            "argv: --api-key *** --port 9",
            "red ***",
            " 99 %",
            "Authorization: Bearer ***",
            "\ufffd odd",
        ]
        assert (found["model"], found["path"]) == ("chat", str(tmp_path / "chat.log"))
        few = await get(r, "/api/v1/models/chat/log?lines=2", "log")
        assert (few["lines"], few["truncated"]) == (["Authorization: Bearer ***", "\ufffd odd"], True)


async def test_lines_that_were_rotated_come_first(tmp_path: Path) -> None:
    written(tmp_path, [b"old %d" % n for n in range(5)], "chat.log.1")
    written(tmp_path, [b"new 0", b"new 1"])
    async with pages(tmp_path) as r:
        found = await get(r, "/api/v1/models/chat/log?lines=4", "log")
        assert (found["lines"], found["truncated"]) == (["old 3", "old 4", "new 0", "new 1"], True)
        found = await get(r, "/api/v1/models/chat/log?lines=7", "log")
        assert (len(found["lines"]), found["truncated"]) == (7, False)


async def test_a_large_log_is_read_from_its_end_and_no_half_secret_is_shown(tmp_path: Path) -> None:
    long = CANARY.encode() * 70_000  # more than is looked at, and no line ends in it
    written(tmp_path, [b"first", long, b"last"])
    async with pages(tmp_path) as r:
        found = await get(r, f"/api/v1/models/chat/log?lines={LINES_MOST}", "log")
        assert (found["lines"], found["truncated"]) == (["last"], True)
        for wrong in ("0", "2001", "x"):
            assert (await r.client.get(f"/api/v1/models/chat/log?lines={wrong}")).status_code == 400


async def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "chat.log").mkdir()
    async with pages(tmp_path, own("removed")) as r:
        answer = await r.client.get("/api/v1/models/chat/log")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "log_unavailable")
        answer = await r.client.get("/api/v1/models/removed/log")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


# -- who asks ------------------------------------------------------------------------------------------------------


async def test_who_asks_and_what_that_key_may_do(tmp_path: Path) -> None:
    async with pages(tmp_path) as r:
        assert await get(r, "/api/v1/whoami", "whoami") == {
            "formatVersion": 1,
            "key": None,
            "scopes": ["admin", "infer", "read"],
            "open": True,
        }
        keys = (
            ApiKey("sk-phone", "phone", frozenset({Scope.INFER})),
            ApiKey("sk-seer", "", frozenset({Scope.READ})),
            ApiKey("sk-all"),
        )
        r.settings(GatewaySettings(api_keys=keys))
        allowed = []
        for key in ("phone", "seer", "all"):
            r.client.headers["authorization"] = f"Bearer sk-{key}"
            who = await get(r, "/api/v1/whoami", "whoami")
            paths = ("stream", "timeline", "models/chat", "models/chat/log")
            heads = [(await r.client.head(f"/api/v1/{path}")).status_code for path in paths]
            allowed.append((who["key"], who["scopes"], who["open"], heads))
        assert allowed == [
            ("phone", ["infer"], False, [403, 403, 403, 403]),
            (None, ["read"], False, [200, 200, 200, 403]),
            (None, ["admin", "infer", "read"], False, [200, 200, 200, 200]),
        ]
        del r.client.headers["authorization"]
        assert (await r.client.get("/api/v1/whoami")).status_code == 401
