"""Summaries of the oldest turns: asked for once, kept, used again, and done without when there is none."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from context_talks import Words, call, chat_of, say
from reconciler.gateway.context import Budget, Fitted, Summaries, Wish, estimated_tokens, fit
from reconciler.gateway.context.summary import HEADING, request_for
from reconciler.gateway.context.text import CHAT, MESSAGES, RESPONSES
from reconciler.gateway.errors import ApiError
from reconciler.leases import LeaseRefused, Refusal
from reconciler.manifest.applied import Overflow

pytestmark = pytest.mark.anyio

BUDGET = Budget(800, Overflow.SUMMARIZE, "small")


class Writer:
    """A model that summarises; remembers what it was asked."""

    def __init__(self, text: str = "they talked about words") -> None:
        self.text = text
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, model: str, document: dict[str, Any]) -> str:
        assert model == document["model"] == "small"
        self.asked.append(document)
        return self.text


async def served(
    document: dict[str, Any],
    summaries: Summaries,
    ask: Callable[[str, dict[str, Any]], Awaitable[str]],
    path: str = CHAT,
) -> Fitted:
    """Do what the gateway does: fit, give the lease back for a wish, fit again."""
    fitted = await fit(call(document, path), BUDGET, Words(), summaries=summaries)
    if fitted.wish is not None:
        failed = await summaries.make(fitted.wish, ask)
        fitted = await fit(call(document, path), BUDGET, Words(), summaries=summaries, failed=failed)
        assert fitted.wish is None
    return fitted


def header(fitted: Fitted) -> str:
    [(name, value)] = fitted.headers
    assert name == b"x-reconciler-context"
    return value.decode()


async def test_the_oldest_turns_become_a_note_behind_the_instructions() -> None:
    writer, document = Writer(), chat_of(12)
    fitted = await served(document, Summaries(), writer)
    kept = fitted.call.document["messages"]
    assert kept[0] == say("system", f"be brief\n\n{HEADING}they talked about words")
    assert kept[1:] == document["messages"][-len(kept) + 1 :]
    assert header(fitted).startswith(f"summarized {26 - len(kept)} of 26 messages, ")
    assert Words().count(CHAT, fitted.call.document) <= 600
    [asked] = writer.asked
    assert "user: q0 word" in asked["messages"][1]["content"]
    assert "assistant: a0 word" in asked["messages"][1]["content"]
    assert "the last question" not in asked["messages"][1]["content"]
    assert asked["max_tokens"] == 100
    assert asked["stream"] is False


async def test_the_next_turns_of_a_long_chat_cost_nothing() -> None:
    writer, summaries, document = Writer(), Summaries(), chat_of(12)
    await served(document, summaries, writer)
    for number in range(3):
        document["messages"] += [say("assistant", "yes " * 40), say("user", f"and then {number}")]
        fitted = await served(document, summaries, writer)
        assert header(fitted).startswith("summarized ")
        assert fitted.call.document["messages"][-1] == say("user", f"and then {number}")
    assert len(writer.asked) == 1


async def test_a_later_summary_is_told_the_earlier_one() -> None:
    writer, summaries, document = Writer(), Summaries(), chat_of(12)
    await served(document, summaries, writer)
    long = [
        m for n in range(20, 29) for m in (say("assistant", f"b{n} " + "word " * 60), say("user", f"r{n}"))
    ]
    fitted = await served({**document, "messages": document["messages"] + long}, summaries, writer)
    assert header(fitted).startswith("summarized ")
    first, second = (asked["messages"][1]["content"] for asked in writer.asked)
    assert second.startswith(HEADING + writer.text)
    assert "q0 word" in first
    assert "q0 word" not in second


async def test_another_conversation_gets_another_summary() -> None:
    writer, summaries = Writer(), Summaries()
    await served(chat_of(12), summaries, writer)
    other = chat_of(12)
    other["messages"][1] = say("user", "q0 something else " + "word " * 50)
    await served(other, summaries, writer)
    assert len(writer.asked) == 2


async def fails(model: str, document: dict[str, Any]) -> str:
    raise ApiError("upstream_error", "it\nbroke")


async def refuses(model: str, document: dict[str, Any]) -> str:
    raise LeaseRefused(Refusal(429, "queue_full", "too many wait"))


async def hangs(model: str, document: dict[str, Any]) -> str:
    await anyio.sleep_forever()
    raise AssertionError


async def silent(model: str, document: dict[str, Any]) -> str:
    return "<think>what now</think>\n "


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (fails, "small failed (it broke)"),
        (refuses, "small failed (too many wait)"),
        (hangs, "small took longer than 0.02 s"),
        (silent, "small wrote nothing"),
    ],
)
async def test_without_a_summary_it_is_trimmed_and_the_header_says_why(
    ask: Callable[[str, dict[str, Any]], Awaitable[str]], why: str
) -> None:
    fitted = await served(chat_of(12), Summaries(seconds=0.02), ask)
    assert header(fitted).startswith("trimmed ")
    assert header(fitted).endswith(f", no summary: {why}")
    assert fitted.call.document["messages"][0] == say("system", "be brief")
    assert Words().count(CHAT, fitted.call.document) <= 600


async def test_without_a_newer_summary_the_older_one_stays_and_the_rest_is_trimmed() -> None:
    summaries, document = Summaries(), chat_of(12)
    await served(document, summaries, Writer())
    long = [
        m for n in range(20, 29) for m in (say("assistant", f"b{n} " + "word " * 60), say("user", f"r{n}"))
    ]
    document["messages"] += long
    fitted = await served(document, summaries, fails)
    assert re.match(
        r"summarized \d+ of 44 messages, trimmed \d+ more, \d+ tokens dropped, no ", header(fitted)
    )
    assert header(fitted).endswith("no newer summary: small failed (it broke)")
    assert HEADING in fitted.call.document["messages"][0]["content"]
    assert Words().count(CHAT, fitted.call.document) <= 600


async def test_a_summary_has_a_length_and_no_thoughts() -> None:
    fitted = await served(chat_of(12), Summaries(), Writer("<think>hm</think>\n" + "long " * 5000))
    note = fitted.call.document["messages"][0]["content"]
    assert "hm" not in note
    assert len(note) <= 100 * 6 + 100


@pytest.mark.parametrize("character", ["x", "é", "中", "😀"])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_what_the_summariser_is_shown_fits_its_own_context(character: str, ratio: float) -> None:
    items = tuple(say("user", character * 3000) for _ in range(20))
    wish = Wish("small", "key", items, None, 4096, ratio)
    document = request_for(wish, 2048)
    shown = estimated_tokens(CHAT, document) * ratio + document["max_tokens"]
    assert 1500 * min(1, ratio) <= shown <= 2048


@pytest.mark.parametrize(
    ("path", "field", "before", "after"),
    [
        (MESSAGES, "system", None, HEADING + "s"),
        (MESSAGES, "system", "be brief", f"be brief\n\n{HEADING}s"),
        (
            MESSAGES,
            "system",
            [{"type": "text", "text": "be brief"}],
            [{"type": "text", "text": "be brief"}, {"type": "text", "text": HEADING + "s"}],
        ),
        (RESPONSES, "instructions", "be brief", f"be brief\n\n{HEADING}s"),
    ],
)
async def test_each_form_of_request_has_its_place_for_the_note(
    path: str, field: str, before: Any, after: Any
) -> None:
    items = chat_of(12, system=False)["messages"]
    document = {"model": "chat", "input" if path == RESPONSES else "messages": items, field: before}
    fitted = await served(document, Summaries(), Writer("s"), path)
    assert fitted.call.document[field] == after


async def test_a_chat_without_instructions_gets_the_note_as_its_first_message() -> None:
    fitted = await served(chat_of(12, system=False), Summaries(), Writer("s"))
    assert fitted.call.document["messages"][0] == say("system", HEADING + "s")
    assert fitted.call.document["messages"][1]["role"] == "user"


async def test_a_manifest_without_summariser_trims() -> None:
    fitted = await fit(call(chat_of(12)), Budget(800, Overflow.SUMMARIZE), Words(), summaries=Summaries())
    assert header(fitted).endswith("no summary: no summarizer")


async def test_several_who_wish_for_the_same_get_it_from_one_request() -> None:
    summaries, release, entered = Summaries(), anyio.Event(), anyio.Event()
    wish = Wish("small", "key", (say("user", "hello"),), None, 800)
    asked: list[str] = []
    results: list[str] = []

    async def ask(model: str, document: dict[str, Any]) -> str:
        asked.append(model)
        entered.set()
        await release.wait()
        return "hi"

    async def want() -> None:
        results.append(await summaries.make(wish, ask))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            leaver = anyio.CancelScope()

            async def leaves() -> None:
                with leaver:
                    await summaries.make(wish, ask)

            group.start_soon(leaves)
            await entered.wait()
            group.start_soon(want)
            group.start_soon(want)
            await anyio.wait_all_tasks_blocked()
            assert asked == ["small"]
            leaver.cancel()  # its client left: one of the others asks
            await anyio.wait_all_tasks_blocked()
            assert asked == ["small", "small"]
            release.set()
    assert results == ["", ""]
    assert asked == ["small", "small"]


async def test_only_so_many_are_kept() -> None:
    summaries, writer = Summaries(), Writer()
    for number in range(200):
        await summaries.make(Wish("small", f"{number}", (say("user", "x"),), None, 800), writer)
    assert summaries.newest(["", "0"]) == (0, None)
    assert summaries.newest(["", "199"])[0] == 1
