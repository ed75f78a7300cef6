"""Requests of Anthropic's API become chat requests that ask the same; what cannot be asked is named."""

import copy
from typing import Any

import pytest

from reconciler.gateway.errors import ApiError
from reconciler.gateway.messages import to_chat

JSON = dict[str, Any]
HELLO: JSON = {"role": "user", "content": "hello"}
TOOL: JSON = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
FUNCTION: JSON = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
PNG: JSON = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PNG_PART: JSON = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def ask(*messages: JSON, **more: object) -> JSON:
    """Return a request with a few tokens to answer in."""
    return {"model": "desk", "max_tokens": 8, "messages": list(messages or (HELLO,)), **more}


def test_a_plain_request() -> None:
    document = ask(temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["END"], metadata={"user_id": "u1"})
    before = copy.deepcopy(document)
    assert to_chat(document) == {
        "model": "desk",
        "messages": [HELLO],
        "max_tokens": 8,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "stop": ["END"],
        "user": "u1",
    }
    assert document == before


def test_a_stream_asks_for_the_tokens_used() -> None:
    chat = to_chat(ask(stream=True))
    assert (chat["stream"], chat["stream_options"]) == (True, {"include_usage": True})
    assert "stream" not in to_chat(ask(stream=False))


def text(words: str) -> JSON:
    """Return a block of text, marked for a cache that only Anthropic has."""
    return {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}


MESSAGES: list[tuple[str, JSON, list[JSON]]] = [
    ("system as text", ask(system="Be brief."), [{"role": "system", "content": "Be brief."}, HELLO]),
    (
        "system as blocks, without the line that is never twice the same",
        ask(system=[text("x-anthropic-billing-header: cch=1;"), text("Be brief."), text("Be kind.")]),
        [{"role": "system", "content": "Be brief.\nBe kind."}, HELLO],
    ),
    (
        "a system message in between",
        ask(HELLO, {"role": "system", "content": [text("New rules.")]}),
        [HELLO, {"role": "system", "content": "New rules."}],
    ),
    (
        "texts and images keep their order",
        ask({"role": "user", "content": [text("this"), PNG, text("and that")]}),
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "this"}, PNG_PART, {"type": "text", "text": "and that"}],
            }
        ],
    ),
    (
        "an image by its address",
        ask(
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}],
            }
        ),
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}],
    ),
    (
        "a document of text",
        ask(
            {
                "role": "user",
                "content": [
                    {"type": "document", "title": "Rules", "source": {"type": "text", "data": "One."}},
                    text("Sum up."),
                ],
            }
        ),
        [{"role": "user", "content": "Rules\nOne.\nSum up."}],
    ),
    (
        "a document of blocks, and a search result",
        ask(
            {
                "role": "user",
                "content": [
                    {"type": "document", "source": {"type": "content", "content": [text("Two."), PNG]}},
                    {
                        "type": "search_result",
                        "title": "T",
                        "source": "http://s",
                        "content": [text("Found.")],
                    },
                ],
            }
        ),
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Two."},
                    PNG_PART,
                    {"type": "text", "text": "T\nhttp://s"},
                    {"type": "text", "text": "Found."},
                ],
            }
        ],
    ),
    (
        "thoughts are dropped, calls kept",
        ask(
            HELLO,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    text("I add."),
                    {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": "ä"}},
                ],
            },
        ),
        [
            HELLO,
            {
                "role": "assistant",
                "content": "I add.",
                "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a": "ä"}'}}
                ],
            },
        ],
    ),
    (
        "a call without words",
        ask({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "add", "input": {}}]}),
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
                ],
            }
        ],
    ),
    (
        "an answer begun",
        ask(HELLO, {"role": "assistant", "content": "Well,"}),
        [HELLO, {"role": "assistant", "content": "Well,"}],
    ),
    (
        "results come before what the user says with them",
        ask(
            {
                "role": "user",
                "content": [
                    text("Go on."),
                    {"type": "tool_result", "tool_use_id": "t1", "content": "3"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "t2",
                        "is_error": True,
                        "content": [text("no"), text("way")],
                    },
                    {"type": "tool_result", "tool_use_id": "t3"},
                    {"type": "tool_result", "tool_use_id": "t4", "is_error": True},
                ],
            }
        ),
        [
            {"role": "tool", "tool_call_id": "t1", "content": "3"},
            {"role": "tool", "tool_call_id": "t2", "content": "Error: no\nway"},
            {"role": "tool", "tool_call_id": "t3", "content": ""},
            {"role": "tool", "tool_call_id": "t4", "content": "Error"},
            {"role": "user", "content": "Go on."},
        ],
    ),
    (
        "an image in a result moves to the user's message",
        ask(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [text("done"), PNG]},
                    text("See?"),
                ],
            }
        ),
        [
            {"role": "tool", "tool_call_id": "t1", "content": "done"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Shown by the result of tool call t1:"},
                    PNG_PART,
                    {"type": "text", "text": "See?"},
                ],
            },
        ],
    ),
    ("nothing said", ask({"role": "user", "content": []}), [{"role": "user", "content": ""}]),
]


@pytest.mark.parametrize(("document", "messages"), [m[1:] for m in MESSAGES], ids=[m[0] for m in MESSAGES])
def test_messages(document: JSON, messages: list[JSON]) -> None:
    assert to_chat(document)["messages"] == messages


CHOICES: list[tuple[JSON, JSON]] = [
    ({}, {}),
    ({"tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
    ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
    ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
    (
        {"tool_choice": {"type": "tool", "name": "add"}},
        {"tool_choice": {"type": "function", "function": {"name": "add"}}},
    ),
    (
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"tool_choice": "auto", "parallel_tool_calls": False},
    ),
]


@pytest.mark.parametrize(("given", "made"), CHOICES)
def test_tools(given: JSON, made: JSON) -> None:
    chat = to_chat(ask(tools=[TOOL, {**TOOL, "name": "sub", "strict": True}], **given))
    assert chat.pop("tools") == [
        {"type": "function", "function": FUNCTION},
        {"type": "function", "function": {**FUNCTION, "name": "sub", "strict": True}},
    ]
    assert {k: v for k, v in chat.items() if k not in ("model", "max_tokens", "messages")} == made


def test_without_tools_there_is_no_choice() -> None:
    chat = to_chat(ask(tools=[], tool_choice={"type": "auto"}))
    assert not {"tools", "tool_choice"} & set(chat)


def test_thinking_and_the_form_of_the_answer() -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    chat = to_chat(ask(thinking={"type": "disabled"}, output_config={"format": form, "effort": "max"}))
    assert chat["chat_template_kwargs"] == {"enable_thinking": False}
    assert chat["reasoning_effort"] == "high"
    assert chat["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert to_chat(ask(thinking={"type": "enabled", "budget_tokens": 1024}))["chat_template_kwargs"] == {
        "enable_thinking": True
    }
    assert "chat_template_kwargs" not in to_chat(ask(thinking={"type": "adaptive"}))


def user(*content: object) -> JSON:
    """Return a request with one message of these blocks."""
    return ask({"role": "user", "content": list(content)})


WRONG: list[tuple[str, JSON]] = [
    ("max_tokens", {"messages": [HELLO]}),
    *(("max_tokens", {"messages": [HELLO], "max_tokens": value}) for value in (0, -1, 1.5, "8", True, None)),
    ("messages", {"max_tokens": 1}),
    ("messages", {"max_tokens": 1, "messages": []}),
    ("messages", {"max_tokens": 1, "messages": "hello"}),
    ("messages.0", {"max_tokens": 1, "messages": ["hello"]}),
    ("messages.1.role", ask(HELLO, {"role": "tool", "content": "x"})),
    ("messages.0.content", ask({"role": "user"})),
    ("messages.0.content", ask({"role": "user", "content": 3})),
    ("messages.0.content.1", user(text("a"), "b")),
    ("messages.0.content.0.type", user({"type": "server_tool_use", "id": "x"})),
    ("messages.0.content.0.type", user({"type": "tool_use", "id": "x", "name": "n", "input": {}})),
    ("messages.0.content.0.type", user({"text": "no type"})),
    ("messages.0.content.0.text", user({"type": "text"})),
    ("messages.0.content.0.source", user({"type": "image"})),
    ("messages.0.content.0.source.type", user({"type": "image", "source": {"type": "file", "file_id": "f"}})),
    (
        "messages.0.content.0.source.data",
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
    ),
    (
        "messages.0.content.0.source.type",
        user({"type": "document", "source": {"type": "base64", "data": "x"}}),
    ),
    ("messages.0.content.0.tool_use_id", user({"type": "tool_result"})),
    ("messages.0.content.0.is_error", user({"type": "tool_result", "tool_use_id": "t", "is_error": 1})),
    (
        "messages.0.content.0.content.0.type",
        user({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference"}]}),
    ),
    ("messages.0.content.0.type", ask({"role": "assistant", "content": [PNG]})),
    (
        "messages.0.content.0.type",
        ask({"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "t"}]}),
    ),
    (
        "messages.0.content.0.input",
        ask({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n"}]}),
    ),
    ("system.0.type", ask(system=[PNG])),
    ("system", ask(system=3)),
    ("temperature", ask(temperature="hot")),
    ("top_p", ask(top_p=float("inf"))),
    ("top_k", ask(top_k=True)),
    ("stream", ask(stream="yes")),
    ("stop_sequences", ask(stop_sequences="END")),
    ("stop_sequences.1", ask(stop_sequences=["END", 1])),
    ("metadata", ask(metadata="me")),
    ("metadata.user_id", ask(metadata={"user_id": 3})),
    ("tools", ask(tools={})),
    ("tools.0.type", ask(tools=[{"type": "web_search_20250305", "name": "web_search"}])),
    ("tools.0.name", ask(tools=[{"input_schema": {}}])),
    ("tools.0.input_schema", ask(tools=[{"name": "n"}])),
    ("tool_choice", ask(tool_choice={"type": "any"})),
    ("tool_choice.type", ask(tools=[TOOL], tool_choice={"type": "some"})),
    ("tool_choice.name", ask(tools=[TOOL], tool_choice={"type": "tool", "name": "sub"})),
    ("thinking.type", ask(thinking={"type": "deep"})),
    ("output_config.format.type", ask(output_config={"format": {"type": "xml"}})),
    ("output_config.effort", ask(output_config={"effort": "heroic"})),
    ("container", ask(container="c")),
    ("mcp_servers", ask(mcp_servers=[{"url": "http://x"}])),
]


@pytest.mark.parametrize(("path", "document"), WRONG)
def test_what_cannot_be_asked_is_named(path: str, document: JSON) -> None:
    with pytest.raises(ApiError) as caught:
        to_chat(document)
    assert (caught.value.status, caught.value.code) == (400, "invalid_request")
    assert caught.value.message.startswith(f"{path}: ")
