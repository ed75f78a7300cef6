"""Nobody waits without a reason: what a request is told while it waits, and when it may come again."""

import asyncio
import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gateway_rig import Rig, receive_all, receive_until, request, rig, scripted, snapshot
from reconciler.board import Board, Progress, Snapshot
from reconciler.core.types import Account, LedgerEntry, ModelSpec, Outcome, Plan, Reason, Verdict
from reconciler.gateway import proxy
from reconciler.gateway.errors import ApiError
from reconciler.gateway.wait import Comments, asked_comments, priority_of
from reconciler.gateway.waiting import place_text, retry_after, state_text
from reconciler.leases import Admission, QueueLimits, Refusal
from reconciler.manifest.applied import ApiKey, ContextLimits, GatewaySettings, Overflow, RequestLimits
from support import wait_for_async

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
STREAM = json.dumps({**ASK, "stream": True}).encode()
COMMENTS = "X-Reconciler-Comments: on"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def loading(
    *, model: str = "chat", since: float = 12.0, expected: float | None = 18.0, took: float | None = 18.0
) -> Snapshot:
    """Return a snapshot with a load in progress that began `since` seconds ago."""
    made = snapshot(ModelSpec("chat", "d"), ModelSpec("other", "d"))
    ledger = (LedgerEntry("chat", "d", load_seconds=took), LedgerEntry("chat", "old", load_seconds=99))
    progress = Progress(model, "loading", made.at - since, expected)
    return replace(made, world=replace(made.world, ledger=ledger), progress=progress)


@pytest.mark.parametrize(
    ("made", "seconds"),
    [
        (None, 5),
        (snapshot(ModelSpec("chat", "d")), 5),
        (loading(), 6),
        (loading(since=30), 1),
        (loading(expected=None), 18),
        (loading(model="other", since=10, expected=14), 22),
        (loading(model="other", took=None), 5),
        (replace(loading(), progress=None), 18),
        (snapshot(ModelSpec("chat", "d"), ready=("chat",)), 5),
    ],
)
def test_when_to_come_again_follows_from_what_loads_take(made: Snapshot | None, seconds: float) -> None:
    assert retry_after(made, "chat", made.at if made else 0.0) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("made", "later", "seconds"),
    [
        (replace(loading(), progress=None), 0.0, 53 + 18),
        (replace(loading(), progress=None), 9.0, 44 + 18),
        (replace(loading(), progress=None), 60.0, 18),
        (loading(model="other"), 0.0, 53 + 18),
        (loading(model="other", since=0.0, expected=99), 0.0, 99 + 18),
        (loading(took=None, model="other"), 0.0, 53 + 5),
    ],
)
@pytest.mark.parametrize("reason", [Reason.RESTING, Reason.BACKING_OFF])
def test_when_to_come_again_counts_the_rest_before_a_load_may_begin(
    made: Snapshot, later: float, seconds: float, reason: Reason
) -> None:
    rests = Verdict("chat", Outcome.BLOCKED, reason, detail="for another 53s", retry_in=53.0)
    made = replace(made, plan=Plan(0, 1, Account(), verdicts=(rests,)))
    assert retry_after(made, "chat", made.at + later) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (None, ""),
        (loading(), "loading chat, 12 s of about 18 s"),
        (loading(expected=None), "loading chat, 12 s"),
        (loading(model="other"), "loading other, 12 s of about 18 s"),
    ],
)
def test_what_happens_is_said_in_words(made: Snapshot | None, text: str) -> None:
    assert state_text(made, "chat", made.at if made else 0.0) == text


def planned(verdict: Verdict, *, ready: tuple[str, ...] = ()) -> Snapshot:
    """Return a snapshot whose plan says this of `chat`."""
    plan = Plan(0, 1, Account(), verdicts=(verdict,))
    return snapshot(ModelSpec("chat", "d"), plan=plan, ready=ready)


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("detail", ["", "NoFile"])
def test_clients_are_told_in_words_whatever_the_plan_says(
    outcome: Outcome, reason: Reason, detail: str
) -> None:
    made = planned(Verdict("chat", outcome, reason, detail=detail))
    text = state_text(made, "chat", made.at)
    assert re.fullmatch(r"chat [a-z', ]+", text)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (
            Verdict("chat", Outcome.COLD, Reason.NOT_WANTED, detail="loads when"),
            "chat was asked for just now",
        ),
        (
            Verdict("chat", Outcome.COLD, Reason.DISMISSED, detail="it stays out"),
            "chat was asked for just now",
        ),
        (Verdict("chat", Outcome.LOAD, Reason.DEMANDED, detail="1 request"), "chat is about to be loaded"),
        (
            Verdict("chat", Outcome.BLOCKED, Reason.VICTIMS_BUSY, detail="5 MiB short until other is idle"),
            "chat waits for room: 5 MiB short until other is idle",
        ),
        (
            Verdict(
                "chat",
                Outcome.BLOCKED,
                Reason.BACKING_OFF,
                detail="died 3 times, tries again in 2.5s: it died: exit code 1; its last line: x",
                retry_in=2.5,
            ),
            "chat died 3 times, tried again in 2 s",
        ),
        (
            Verdict("chat", Outcome.BLOCKED, Reason.BACKING_OFF, retry_in=2.5),
            "chat failed to start, tried again in 2 s",
        ),
        (
            Verdict("chat", Outcome.BLOCKED, Reason.RESTING, retry_in=0.5),
            "chat was unloaded a moment ago, tried",
        ),
        (Verdict("chat", Outcome.EVICT, Reason.MAKE_ROOM), "chat is being unloaded to make room"),
        (Verdict("chat", Outcome.KEEP, Reason.IN_USE), ""),
    ],
)
def test_what_the_plan_means_for_who_waits(verdict: Verdict, text: str) -> None:
    made = planned(verdict, ready=("chat",) if verdict.reason in (Reason.IN_USE, Reason.MAKE_ROOM) else ())
    said = state_text(made, "chat", made.at + 1)
    assert said.startswith(text)
    assert bool(said) == bool(text)


async def test_who_asks_first_is_not_told_that_nobody_asked() -> None:
    async with rig() as r:
        cold = Verdict("chat", Outcome.COLD, Reason.NOT_WANTED, detail="loads when a request asks for it")
        made = planned(cold)
        limits = {"chat": RequestLimits(queue=QueueLimits(1, 60))}
        r.publish(replace(made, applied=replace(made.applied, limits=limits)))
        async with await r.raw(request(STREAM, COMMENTS)) as stream:
            await receive_until(stream, b": chat was asked for just now\n\n")
            refused = (await r.post(ASK)).json()["error"]
        assert refused["code"] == "queue_full"
        assert refused["message"].endswith("(chat was asked for just now)")
        await r.idle()


def test_places_in_line() -> None:
    said = [place_text(place, 30) for place in (2, 3, 4, 11, 12, 13, 21, 22, 23)]
    wanted = ("2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd")
    assert said == [f"{place} in line" for place in wanted]
    assert place_text(1, 30) == "next in line"
    assert place_text(1, 1) == ""


@pytest.mark.parametrize(
    ("asked", "key", "model", "wanted"),
    [
        (None, None, 500, 500),
        (None, ApiKey("k"), 500, 500),
        (None, ApiKey("k", priority=900), 500, 900),
        (b"low", None, 500, 250),
        (b" 7 ", ApiKey("k", priority=900), 500, 7),
        (b"critical", None, 500, 500),
        (b"999999999", ApiKey("k", priority=10), 500, 10),
    ],
)
def test_a_client_may_be_less_urgent_but_never_more(
    asked: bytes | None, key: ApiKey | None, model: int, wanted: int
) -> None:
    headers = [(b"x-reconciler-priority", asked)] if asked is not None else []
    assert priority_of(headers, key, model) == wanted


@pytest.mark.parametrize("asked", [b"", b"-1", b"urgent", b"1.5", b"9" * 5000, "\uff15".encode()])
def test_a_priority_that_is_none_is_refused(asked: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        priority_of([(b"x-reconciler-priority", asked)], None, 500)
    assert caught.value.code == "invalid_header"


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [(None, None)]
    + [(word, True) for word in (b"on", b"true", b"1", b"yes", b" ON ")]
    + [(word, False) for word in (b"off", b"False", b"0", b"no")],
)
def test_comments_are_asked_for_in_either_way(asked: bytes | None, wanted: bool | None) -> None:
    assert asked_comments([(b"x-reconciler-comments", asked)] if asked is not None else []) is wanted


@pytest.mark.parametrize("asked", ["banana", "", "2", "on, off"])
@pytest.mark.parametrize("body", [ASK, {**ASK, "stream": True}])
async def test_a_wish_for_comments_that_means_nothing_is_refused(asked: str, body: dict[str, Any]) -> None:
    async with rig() as r:
        answer = await r.post(body, headers={"X-Reconciler-Comments": asked})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "invalid_header")
        assert "on or off" in error["message"]
        assert (r.book.demands(), r.wakes) == ((), [])


async def queued(r: Rig, count: int) -> None:
    """Return when so many requests wait."""
    await wait_for_async(lambda: sum(d.waiting + d.gated for d in r.book.demands()) == count, 2, "the queue")


async def test_a_stream_is_told_what_it_waits_for_and_then_answered() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(loading())
        async with await r.raw(request(STREAM, COMMENTS)) as stream:
            start = await receive_until(stream, b" s\n\n")
            assert start.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"content-type: text/event-stream\r\n" in start
            assert b": loading chat, 12 s of about 18 s\n\n" in start
            assert b"x-reconciler-waited-for: load, place 1\r\n" in start
            r.open(engine.port)
            got = await engine.next()
            await got.write(EVENTS + EVENT)
            rest = await receive_until(stream, b"0\r\n\r\n")
            assert b"data: [DONE]\n\n" in rest
            assert b"HTTP/1.1" not in rest
        await r.idle()


async def test_a_stream_that_was_told_gets_an_error_as_an_event_and_no_proper_end() -> None:
    async with rig() as r:
        r.publish(loading())
        async with await r.raw(request(STREAM, COMMENTS)) as stream:
            await receive_until(stream, b" s\n\n")
            r.book.refuse("chat", Refusal(502, "load_failed", "exit 3"))
            rest = await receive_all(stream)
        assert b'data: {"error": {"message": "exit 3"' in rest
        assert not rest.endswith(b"0\r\n\r\n")
        await r.idle()


@pytest.mark.parametrize(
    ("settings", "header", "body", "told"),
    [
        (False, None, STREAM, False),
        (True, None, STREAM, True),
        (True, "X-Reconciler-Comments: off", STREAM, False),
        (True, COMMENTS, json.dumps(ASK).encode(), False),
    ],
)
async def test_comments_are_for_streams_that_want_them(
    settings: bool, header: str | None, body: bytes, told: bool
) -> None:
    async with rig() as r, scripted() as engine:
        r.settings(GatewaySettings(comments=settings))
        async with await r.raw(request(body, *([header] if header else []))) as stream:
            await queued(r, 1)
            r.open(engine.port)
            await (await engine.next()).write(EVENTS + EVENT)
            assert (b"\n: " in await receive_until(stream, b"0\r\n\r\n")) == told


async def test_an_answer_that_is_no_stream_is_never_begun_as_one() -> None:
    async with rig() as r, scripted() as engine:
        stream = await r.raw(request(STREAM, COMMENTS, path="/v1/embeddings"))
        await queued(r, 1)
        r.open(engine.port)
        await (await engine.next()).write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        assert b"text/event-stream" not in await receive_until(stream, b"{}")
        await stream.aclose()


async def test_comments_come_again_and_end_when_told_to() -> None:
    said: list[str] = []

    class Sink:
        async def begin_events(self, extra: list[tuple[bytes, bytes]]) -> None:
            said.append("begun")

        async def comment(self, text: str) -> None:
            said.append(text)

    comments = Comments(Sink(), lambda: f"{len(said)}", seconds=0.001)  # type: ignore[arg-type]
    comments.begin([])
    await wait_for_async(lambda: len(said) > 3, 2, "comments")
    await comments.end()
    heard = list(said)
    assert heard[:4] == ["begun", "1", "2", "3"]
    assert comments.over


async def test_a_place_at_the_gate_is_told_and_shown_in_the_answer() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        r.book.assign({"chat": Admission(concurrency=1)})
        async with await r.raw(request(json.dumps(ASK).encode())) as first:
            held = await engine.next()
            async with await r.raw(request(STREAM, COMMENTS)) as second:
                told = await receive_until(second, b"may\n\n")
                assert b": chat serves as many requests as it may\n\n" in told
                async with await r.raw(request(json.dumps(ASK).encode())) as third:
                    await queued(r, 2)
                    plain = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\n{}"
                    await held.write(plain)
                    await receive_until(first, b"{}")
                    await (await engine.next()).write(EVENTS + EVENT)
                    await receive_until(second, b"0\r\n\r\n")
                    await (await engine.next()).write(plain)
                    answer = await receive_until(third, b"{}")
                    assert b"x-reconciler-waited-for: place, place 2\r\n" in answer
                    assert b"x-reconciler-waited: " in answer
        await r.idle()


@pytest.mark.parametrize(
    ("limits", "status", "code"),
    [(QueueLimits(1, 60), 429, "queue_full"), (QueueLimits(9, 0.05), 503, "queue_timeout")],
)
async def test_a_refusal_says_what_is_loading_and_for_how_long(
    limits: QueueLimits, status: int, code: str
) -> None:
    async with rig() as r:
        made = loading(since=2, expected=40)
        request_limits = {name: RequestLimits(queue=limits) for name in ("chat", "other")}
        r.publish(replace(made, applied=replace(made.applied, limits=request_limits)))
        async with await r.raw(request(json.dumps(ASK).encode())):
            await queued(r, 1)
            answer = await r.post(ASK)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code)
        assert "loading chat, " in error["message"]
        assert 30 <= int(answer.headers["retry-after"]) <= 38
        await r.idle()


async def test_a_request_right_after_the_start_waits_for_the_first_look() -> None:
    board = Board()
    assert await board.first(0.001) is None
    waiting = asyncio.create_task(board.first(5))
    await asyncio.sleep(0)
    made = snapshot(ModelSpec("chat", "d"))
    board.publish(made)
    assert await waiting is made
    async with rig(start_seconds=5) as r, scripted() as engine:
        now, r.board.snapshot = r.board.snapshot, None
        asked = asyncio.create_task(r.post(ASK))
        assert (await r.client.get("/api/v1/status")).json()["error"]["code"] == "starting"
        assert now is not None
        r.publish(now)
        r.open(engine.port)
        got = await engine.next()
        await got.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        assert (await asked).status_code == 200


def limited(tokens: int, overflow: Overflow) -> RequestLimits:
    """Return limits with a context budget."""
    return RequestLimits(context=ContextLimits(tokens, overflow, "other"))


async def test_a_prompt_that_can_never_fit_is_refused_before_anything_is_loaded() -> None:
    async with rig() as r:
        r.publish(snapshot(ModelSpec("chat", "d"), limits=limited(100, Overflow.REJECT)))
        for ask in ({**ASK, "max_tokens": 100}, {**ASK, "prompt": "x"} | {"messages": [long_turn(9000)]}):
            answer = await r.post(ask)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
            assert "100" in error["message"]
        assert (r.book.demands(), r.wakes) == ((), [])
        listed = (await r.client.get("/v1/models/chat")).json()
        assert (listed["context_length"], listed["max_model_len"], listed["meta"]) == (
            100,
            100,
            {"n_ctx": 100},
        )


def long_turn(size: int, role: str = "user") -> dict[str, str]:
    """Return a message of so many bytes."""
    return {"role": role, "content": "word " * (size // 5)}


TURNS = [long_turn(600, role) for role in ("user", "assistant") * 4]
LONG = [{"role": "system", "content": "be kind"}, *TURNS, long_turn(60)]


async def test_a_conversation_that_is_too_long_is_trimmed_and_the_answer_says_so() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(snapshot(ModelSpec("chat", "d"), limits=limited(500, Overflow.TRIM)))
        r.open(engine.port)
        async with await r.raw(request(json.dumps({**ASK, "messages": LONG}).encode())) as stream:
            got = await engine.next()
            kept = json.loads(got.body)["messages"]
            assert (kept[0], kept[-1]) == (LONG[0], LONG[-1])
            assert 2 <= len(kept) < len(LONG)
            await got.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            assert b"x-reconciler-context: trimmed " in await receive_until(stream, b"{}")


def summarizing() -> Snapshot:
    """Return a snapshot in which `other` summarises for `chat`."""
    made = snapshot(ModelSpec("chat", "d"), ModelSpec("other", "d"), limits=limited(500, Overflow.SUMMARIZE))
    plain = {**made.applied.limits, "other": RequestLimits()}
    return replace(made, applied=replace(made.applied, limits=plain))


LONG_STREAM = json.dumps({**ASK, "messages": LONG, "stream": True}).encode()
SAID = json.dumps({"choices": [{"message": {"content": "They said word."}}]}).encode()
SUMMARY = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(SAID), SAID)


async def test_a_stream_is_told_how_far_its_summary_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "Comments", partial(Comments, seconds=0.01))
    async with rig() as r, scripted() as engine, scripted() as other:
        r.publish(summarizing())
        r.open(engine.port)
        async with await r.raw(request(LONG_STREAM, COMMENTS)) as stream:
            start = await receive_until(
                stream, b": waiting for other; other is to summarize the earlier turns\n\n"
            )
            assert start.startswith(b"HTTP/1.1 200 OK\r\n")
            r.open(other.port, "other")
            asked = await other.next()
            async with await r.raw(request(LONG_STREAM, COMMENTS)) as second:
                # It has the summary of the first one, and knows what that one knows.
                said = await receive_until(second, b": other is summarizing the earlier turns\n\n")
                assert b"waiting" not in said
            await receive_until(stream, b": other is summarizing the earlier turns\n\n")
            r.book.close("chat")
            await asked.write(SUMMARY)
            await receive_until(stream, b": waiting for chat\n\n")
            r.open(engine.port)
            await (await engine.next()).write(EVENTS + EVENT)
            rest = await receive_until(stream, b"[DONE]")
        comments = [line for line in rest.split(b"\n") if line.startswith(b": ")]
        assert re.fullmatch(rb": context: summarized \d+ of 10 messages, \d+ tokens dropped", comments[-1])
        assert rest.count(b": context: ") == 1
        await r.idle()


async def test_a_request_that_waits_for_a_summary_is_seen_and_holds_nothing() -> None:
    async with rig() as r, scripted() as engine, scripted() as other:
        r.publish(summarizing())
        r.open(engine.port)
        r.open(other.port, "other")
        body = request(json.dumps({**ASK, "messages": LONG}).encode())
        async with await r.raw(body) as stream:
            asked = await other.next()
            chat, summarizer = r.book.demands()
            assert (chat.model, chat.away, chat.active, chat.waiting) == ("chat", ("other",), 0, 0)
            assert (summarizer.model, summarizer.active) == ("other", 1)
            await asked.write(SUMMARY)
            got = await engine.next()
            [chat] = r.book.demands()
            assert (chat.away, chat.active) == ((), 1)
            await got.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            await receive_until(stream, b"{}")
        async with await r.raw(body.replace(b"be kind", b"be nice").replace(b"word word", b"work word", 1)):
            await other.next()
            assert r.book.demands()[0].away == ("other",)
        await r.idle()  # its client left


async def test_what_was_left_out_is_told_in_a_comment_where_the_headers_are_out() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(snapshot(ModelSpec("chat", "d"), limits=limited(500, Overflow.TRIM)))
        async with await r.raw(request(LONG_STREAM, COMMENTS)) as stream:
            head = await receive_until(stream, b": waiting for chat\n\n")
            r.open(engine.port)
            await (await engine.next()).write(EVENTS + EVENT)
            assert b"\n: context: trimmed " in await receive_until(stream, b"[DONE]")
            assert b"x-reconciler-context" not in head
        async with await r.raw(request(LONG_STREAM, COMMENTS)) as stream:
            await (await engine.next()).write(EVENTS + EVENT)
            answer = await receive_until(stream, b"[DONE]")
            assert b"x-reconciler-context: trimmed " in answer
            assert b": context: " not in answer.partition(b"\r\n\r\n")[2]


async def test_nothing_is_told_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "Comments", partial(Comments, seconds=0.001))
    async with rig() as r, scripted() as engine:
        r.publish(snapshot(ModelSpec("chat", "d"), limits=limited(500, Overflow.REJECT)))
        body = json.dumps({**ASK, "stream": True, "messages": [long_turn(2000)]}).encode()
        async with await r.raw(request(body, COMMENTS)) as stream:
            await receive_until(stream, b": waiting for chat\n\n")
            r.open(engine.port)
            rest = await receive_all(stream)
        error = rest.index(b'data: {"error": ')
        assert b"context_length_exceeded" in rest[error:]
        assert b"\n: " not in rest[error:]
        await r.idle()


async def test_a_conversation_is_summarised_by_another_model_and_no_two_leases_are_held_at_once() -> None:
    async with rig() as r, scripted() as engine, scripted() as other:
        limits = limited(500, Overflow.SUMMARIZE)
        made = snapshot(ModelSpec("chat", "d"), ModelSpec("other", "d"), limits=limits)
        plain = {**made.applied.limits, "other": RequestLimits()}
        r.publish(replace(made, applied=replace(made.applied, limits=plain)))
        r.open(engine.port)
        r.open(other.port, "other")
        async with await r.raw(request(json.dumps({**ASK, "messages": LONG}).encode())) as stream:
            asked = await other.next()
            assert r.book.active("chat") == 0
            assert json.loads(asked.body)["model"] == "other"
            said = json.dumps({"choices": [{"message": {"content": "They said word."}}]}).encode()
            await asked.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
            got = await engine.next()
            assert r.book.active("other") == 0
            assert "They said word." in got.body.decode()
            await got.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            assert b"x-reconciler-context: summarized " in await receive_until(stream, b"{}")
        await r.idle()
