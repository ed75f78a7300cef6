"""How much prompt a request holds, and what the estimates say of it."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_talks import say, talks
from reconciler.gateway.context import estimate
from reconciler.gateway.context.budget import answer_tokens
from reconciler.gateway.context.text import (
    CHAT,
    COMPLETION,
    COMPLETIONS,
    IMAGE_TOKENS,
    INFILL,
    MESSAGES,
    RESPONSES,
    TEXTUAL,
    Extent,
    extent_of,
    solid_bytes,
)
from reconciler.gateway.errors import ApiError

LONG = "x" * 1000
PICTURE = "data:image/png;base64," + "A" * 1_000_000
NAMES = ("type", "role", "content", "text", "tool_calls", "function", "input", "source", "output", "name")
TOOL = {"type": "function", "function": {"name": "f", "description": LONG, "parameters": {"type": "object"}}}


def one(content: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content, **more}]}


CERTAIN = [
    (CHAT, one(LONG)),
    (CHAT, one([{"type": "text", "text": LONG}])),
    (CHAT, one(LONG, role="system")),
    (CHAT, one(LONG, role="tool", tool_call_id="1")),
    (
        CHAT,
        one(None, role="assistant", tool_calls=[{"id": "1", "function": {"name": "", "arguments": LONG}}]),
    ),
    (COMPLETIONS, {"prompt": LONG}),
    (COMPLETION, {"prompt": LONG}),
    (COMPLETION, {"prompt": {"prompt_string": LONG, "multimodal_data": [PICTURE]}}),
    (INFILL, {"prompt": LONG}),
    (INFILL, {"input_prefix": LONG[:400], "input_suffix": LONG[:500], "prompt": LONG[:100]}),
    (INFILL, {"input_extra": [{"filename": "f" * 10, "text": LONG[:990]}], "input_prefix": ""}),
    (RESPONSES, {"input": LONG}),
    (RESPONSES, {"input": [say("user", LONG)]}),
    (
        RESPONSES,
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": LONG}]}]},
    ),
    (RESPONSES, {"input": [{"type": "function_call", "call_id": "1", "arguments": LONG}]}),
    (RESPONSES, {"input": [{"type": "function_call_output", "call_id": "1", "output": LONG}]}),
    (RESPONSES, {"input": [], "instructions": LONG}),
    (MESSAGES, one([{"type": "tool_result", "tool_use_id": "1", "content": LONG}])),
    (
        MESSAGES,
        one([{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": LONG}]}]),
    ),
    (MESSAGES, {"messages": [], "system": LONG}),
    (MESSAGES, {"messages": [], "system": [{"type": "text", "text": LONG}]}),
]


@pytest.mark.parametrize(("path", "document"), CERTAIN)
def test_text_of_every_form_is_prompt(path: str, document: dict[str, Any]) -> None:
    assert extent_of(path, document).text == 1000
    if path in TEXTUAL:
        assert estimate.lower(path, document) == 1000 // 16


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (CHAT, {**one("hi"), "tools": [TOOL]}),
        (CHAT, one("hi", reasoning_content=LONG)),
        (CHAT, one("hi", unknown={"deep": [LONG]})),
        (MESSAGES, one([{"type": "thinking", "thinking": LONG}])),
        (
            MESSAGES,
            one([{"type": "tool_use", "id": "1", "name": "f", "input": {"a": LONG}}], role="assistant"),
        ),
        (RESPONSES, {"input": "hi", "tools": [{"type": "function", "description": LONG}]}),
        (COMPLETIONS, {"prompt": "hi", "suffix": LONG}),
    ],
)
def test_what_only_some_templates_show_counts_for_the_upper_estimate_only(
    path: str, document: dict[str, Any]
) -> None:
    assert 1000 <= extent_of(path, document).other < 1200
    assert estimate.lower(path, document) == 0


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (CHAT, one([{"type": "image_url", "image_url": {"url": PICTURE}}])),
        (
            RESPONSES,
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PICTURE}]}]},
        ),
        (MESSAGES, one([{"type": "image", "source": {"type": "base64", "data": PICTURE}}])),
        (COMPLETION, {"prompt": {"prompt_string": "a <__media__>", "multimodal_data": [PICTURE]}}),
        (
            MESSAGES,
            one([{"type": "tool_result", "content": [{"type": "image", "source": {"data": PICTURE}}]}]),
        ),
    ],
)
def test_an_image_is_its_figure_and_is_not_copied(path: str, document: dict[str, Any]) -> None:
    tracemalloc.start()
    extent = extent_of(path, document)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
    assert extent.media == IMAGE_TOKENS
    assert extent.text + extent.other < 50


def test_sound_is_counted_by_its_length() -> None:
    minute = {"type": "input_audio", "input_audio": {"data": "A" * 240_000, "format": "mp3"}}
    assert 1500 <= extent_of(CHAT, one([minute])).media <= 1510


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ([1, 2, 3], Extent(ids=3)),
        ([[1, 2], [1, 2, 3, 4]], Extent(ids=4)),
        (["ab", "abcd"], Extent(text=4)),
        ([5, "abc", 6], Extent(text=3, ids=2)),
        ([], Extent()),
        (None, Extent()),
    ],
)
def test_a_completion_is_as_long_as_its_longest_prompt(prompt: Any, expected: Extent) -> None:
    assert extent_of(COMPLETIONS, {"prompt": prompt}) == expected


def test_characters_beyond_ascii_are_told_apart() -> None:
    extent = extent_of(CHAT, one("aé中😀"))
    assert (extent.text, extent.wide) == (1 + 2 + 3 + 4, 9)
    assert extent_of(CHAT, one("\ud800")).text == 3  # half a pair is no reason to fail


@pytest.mark.parametrize("drawn", [" ", "-", "=", "\n", "| "])
def test_the_lower_estimate_takes_no_drawn_line_for_text(drawn: str) -> None:
    assert estimate.lower(CHAT, one(drawn * 100_000)) == 0
    assert estimate.lower(CHAT, one("word" * 4000 + drawn * 100_000)) == 1000


def test_the_search_for_lines_ends_after_4_mib_of_a_text() -> None:
    assert solid_bytes(CHAT, one("a" * (5 * 1024 * 1024))) == 4 * 1024 * 1024


@given(talks())
def test_the_estimates_are_in_order(made: tuple[str, dict[str, Any]]) -> None:
    path, document = made
    extent = extent_of(path, document)
    assert estimate.lower(path, document) <= estimate.plain(extent) <= estimate.upper(extent)
    assert estimate.upper(extent) <= estimate.body_bound(len(json.dumps(document))) + 32 * extent.messages


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(NAMES), v, max_size=4),
    max_leaves=8,
)


@given(JSON)
@settings(max_examples=60)
def test_nonsense_has_an_extent_too(value: Any) -> None:
    for path in (CHAT, COMPLETIONS, RESPONSES, MESSAGES):
        for field in ("messages", "input", "prompt", "system", "tools"):
            assert estimate.upper(extent_of(path, {field: value})) >= 512
        assert estimate.lower(path, {"messages": [value], "input": [value], "prompt": value}) >= 0


@pytest.mark.parametrize(
    ("document", "tokens"),
    [
        ({}, 0),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 7, "max_tokens": 5}, 7),
        ({"max_output_tokens": 9}, 9),
        ({"n_predict": 11}, 11),
        ({"n_predict": -1}, 0),
        ({"max_tokens": True}, 0),
        ({"max_tokens": "100"}, 0),
        ({"max_tokens": 64.0}, 64),
        ({"max_tokens": float("nan")}, 0),
        ({"max_tokens": float("inf")}, 2**53),
        ({"max_tokens": 10**400}, 2**53),
    ],
)
def test_the_answer_that_is_asked_for(document: dict[str, Any], tokens: int) -> None:
    assert answer_tokens(document) == tokens


def test_nesting_without_end_is_an_error_of_the_client() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = {"content": [deep]}
    with pytest.raises(ApiError) as caught:
        extent_of(CHAT, {"messages": [deep]})
    assert (caught.value.code, caught.value.status) == ("invalid_json", 400)
