"""Shortened conversations: what stays, what goes together, and how seldom the tokenizer is asked."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_talks import Words, call, cannot, chat_of, orphans, say, talks
from reconciler.gateway.context import Budget, Fitted, estimated_tokens, fit
from reconciler.gateway.context.text import CHAT, COMPLETIONS, MESSAGES, RESPONSES, items_of
from reconciler.gateway.context.turns import Part, part_of, talk_of
from reconciler.gateway.errors import ApiError
from reconciler.manifest.applied import Overflow

pytestmark = pytest.mark.anyio


def trim(tokens: int) -> Budget:
    return Budget(tokens, Overflow.TRIM)


def said(fitted: Fitted) -> str:
    [(name, value)] = fitted.headers
    assert name == b"x-reconciler-context"
    return value.decode()


async def test_the_oldest_turns_go_and_the_header_tells() -> None:
    words = Words()
    document = chat_of(10)
    fitted = await fit(call({**document, "max_tokens": 100}), trim(600), words)
    kept = fitted.call.document["messages"]
    before, after = words.count(CHAT, document), words.count(CHAT, fitted.call.document)
    assert kept[0] == say("system", "be brief")
    assert kept[1:] == document["messages"][-len(kept) + 1 :]
    assert after <= 500
    assert said(fitted) == f"trimmed {21 + 1 - len(kept)} of 22 messages, {before - after} tokens dropped"
    # Not more than it takes: one turn more would have been too long.
    assert words.count(CHAT, {"messages": document["messages"][-len(kept) - 1 :]}) > 500
    assert len(words.asked) <= 4
    assert {k: v for k, v in fitted.call.document.items() if k != "messages"} == {
        "model": "chat",
        "max_tokens": 100,
    }


async def test_a_quarter_is_left_for_an_answer_of_no_stated_length() -> None:
    words = Words()
    fitted = await fit(call(chat_of(10)), trim(600), words)
    assert words.count(CHAT, fitted.call.document) <= 450


async def test_the_body_that_is_sent_is_the_shortened_one() -> None:
    fitted = await fit(call(chat_of(10)), trim(600), Words())
    again = call(fitted.call.document)
    assert bytes(fitted.call.body).replace(b" ", b"") == bytes(again.body).replace(b" ", b"")


async def test_a_conversation_far_too_long_is_not_given_to_the_tokenizer_whole() -> None:
    words = Words()
    document = chat_of(400, words=400)
    fitted = await fit(call(document), trim(2000), words)
    assert all(len(asked["messages"]) < 20 for asked in words.asked)
    assert words.count(CHAT, fitted.call.document) <= 1500


@pytest.mark.parametrize("per_word", [1, 3, 9])
async def test_a_tokenizer_unlike_the_estimate_is_followed(per_word: int) -> None:
    words = Words(per_word)
    fitted = await fit(call(chat_of(40)), trim(2000), words)
    assert words.count(CHAT, fitted.call.document) <= 1500
    assert len(words.asked) <= 4


async def test_a_tokenizer_unlike_the_estimate_is_followed_from_the_first_count_on() -> None:
    words = Words(5)
    fitted = await fit(call(chat_of(200, words=80)), trim(4000), words)
    assert len(fitted.call.document["messages"]) > 4
    assert len(words.asked) <= 3


async def test_the_last_try_leaves_out_all_that_may_go() -> None:
    asked: list[int] = []

    async def count(path: str, document: Mapping[str, Any]) -> int | None:
        asked.append(len(document["messages"]))
        return 100 if asked[-1] <= 2 else 601  # the weight is all in the last turn but one

    fitted = await fit(call(chat_of(40, words=15)), trim(600), count)
    assert fitted.call.document["messages"] == [say("system", "be brief"), say("user", "the last question")]
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("path", "document", "why"),
    [
        (CHAT, {"messages": [say("user", "word " * 3000)]}, "only one turn"),
        (
            CHAT,
            {"messages": [say("user", "a"), say("assistant", "b"), say("user", "word " * 3000)]},
            "alone are too long",
        ),
        (
            CHAT,
            {"messages": [say("system", "word " * 3000), say("user", "a"), say("user", "b")]},
            "alone are too long",
        ),
        (COMPLETIONS, {"prompt": "word " * 3000}, "Only conversations"),
        (RESPONSES, {"input": "word " * 3000}, "Only conversations"),
    ],
)
async def test_what_cannot_be_shortened_enough_is_refused(
    path: str, document: dict[str, Any], why: str
) -> None:
    with pytest.raises(ApiError, match=why) as caught:
        await fit(call(document, path), trim(1000), Words())
    assert caught.value.code == "context_length_exceeded"


def test_turns_with_a_tool_called_in_an_earlier_one_are_one() -> None:
    late = {"role": "tool", "tool_call_id": "c", "content": "it rains"}
    called = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]}
    items = [
        say("user", "a"),
        say("user", "b"),
        called,
        say("user", "c"),
        late,
        say("user", "d"),
        say("user", "e"),
    ]
    talk = talk_of(CHAT, {"messages": items})
    assert talk is not None
    assert talk.turns == ((0,), (1, 2, 3, 4), (5,), (6,))


def test_the_same_id_in_each_turn_joins_no_turns() -> None:
    called = {"role": "assistant", "tool_calls": [{"id": "call_0", "function": {"name": "f"}}]}
    result = {"role": "tool", "tool_call_id": "call_0", "content": "it rains"}
    talk = talk_of(CHAT, {"messages": [say("user", "a"), called, result] * 4})
    assert talk is not None
    assert len(talk.turns) == 4


def test_a_result_in_a_message_of_the_user_begins_no_turn() -> None:
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}
    assert part_of(MESSAGES, result) is Part.FOLLOWS
    assert part_of(MESSAGES, say("user", "x")) is Part.USER


async def _fitted(path: str, document: dict[str, Any], budget: Budget, counter: Any) -> Fitted | None:
    try:
        return await fit(call(document, path), budget, counter)
    except ApiError as error:
        assert error.code == "context_length_exceeded"  # noqa: PT017
        return None


@given(made=talks(), tokens=st.integers(10, 700), answer=st.integers(0, 100), exact=st.booleans())
async def test_whatever_the_conversation(
    made: tuple[str, dict[str, Any]], tokens: int, answer: int, exact: bool
) -> None:
    path, document = made
    if answer:
        document = {**document, "max_tokens": answer}
    words = Words()
    fitted = await _fitted(path, document, trim(tokens), words if exact else cannot)
    assert len(words.asked) <= 4
    talk = talk_of(path, document)
    if fitted is None:
        # Even without all that may go it is too long.
        shortest = talk.without(talk.most) if talk else document
        left = words.count(path, shortest) if exact else estimated_tokens(path, shortest)
        assert left + max(1, answer) > tokens or answer >= tokens
        return
    items, kept = items_of(path, document), items_of(path, fitted.call.document)
    # Nothing is made up or moved, the instructions and the last thing said stay.
    rest = iter(items)
    assert all(any(item is old or item == old for old in rest) for item in kept)
    system = [item for item in items if part_of(path, item) is Part.SYSTEM]
    assert [item for item in kept if part_of(path, item) is Part.SYSTEM] == system
    users = [i for i, item in enumerate(items) if part_of(path, item) is Part.USER]
    last = items[users[-1] if users else -1 :]
    assert [i for i in kept if i in last][-len(last) :] == last
    # No result without its call that had one.
    assert orphans(path, kept) <= orphans(path, items)
    spoken = [part_of(path, item) for item in kept if part_of(path, item) is not Part.SYSTEM]
    if len(kept) < len(items) and users:
        assert spoken[0] is Part.USER
    # It fits, by the same counter, and then it is left alone.
    count = words.count if exact else estimated_tokens
    assert count(path, fitted.call.document) + max(1, answer) <= tokens or not fitted.headers
    again = await fit(call(fitted.call.document, path), trim(tokens), words if exact else cannot)
    assert again.call.document == fitted.call.document
    assert again.headers == []
    assert bool(fitted.headers) == (len(kept) < len(items))
    if fitted.headers:
        assert re.match(
            rf"trimmed {len(items) - len(kept)} of {len(items)} messages, \d+ tokens dropped$", said(fitted)
        )
