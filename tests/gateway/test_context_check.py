"""Which requests fit, which are refused before anything is loaded, and in which words."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from board_samples import snapshot
from context_talks import Words, call, cannot, chat_of, say
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight
from reconciler.gateway.context import Budget, budget_of, count_answer, early, estimated_tokens, fit
from reconciler.gateway.context.refusal import COUNTED, too_long
from reconciler.gateway.context.text import CHAT, COMPLETION, COMPLETIONS, INFILL, MESSAGES, RESPONSES
from reconciler.gateway.error_form import ANTHROPIC
from reconciler.gateway.errors import ApiError
from reconciler.manifest.applied import ContextLimits, Overflow, RequestLimits

pytestmark = pytest.mark.anyio

SMALL = {"model": "chat", "messages": [say("user", "hi")]}
PICTURE = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}


async def never(path: str, document: Mapping[str, Any]) -> int | None:
    raise AssertionError("the tokenizer was asked")


@pytest.mark.parametrize(
    ("path", "document", "tokens"),
    [
        (CHAT, SMALL, 512),
        (CHAT, {**SMALL, "max_tokens": 300}, 512),
        (CHAT, {**SMALL, "max_tokens": 300, "user": "u" * 40, "stop": ["x" * 60]}, 512),
        (MESSAGES, {**SMALL, "max_tokens": 256}, 512),
        (COMPLETIONS, {"prompt": "hi", "max_tokens": 400}, 512),
        (CHAT, SMALL, 600),
        (CHAT, {**SMALL, "max_tokens": 400}, 1000),
        (CHAT, {"messages": [say("user", "x" * 4000)]}, 4700),
        (CHAT, {"messages": [say("user", "\u4e2d" * 1000)]}, 3700),  # 6 bytes each in this body, 3 in UTF-8
        (COMPLETIONS, {"prompt": "x" * 100}, 700),
        (COMPLETION, {"prompt": "x" * 100, "n_predict": -1}, 700),
        (INFILL, {"input_prefix": "x" * 50, "input_suffix": "x" * 50}, 700),
        (RESPONSES, {"input": "x" * 100}, 700),
        ("/v1/embeddings", {"input": "x" * 10_000}, 10),
        ("/v1/audio/speech", {"input": "x" * 10_000}, 10),
    ],
)
async def test_what_surely_fits_is_not_counted(path: str, document: dict[str, Any], tokens: int) -> None:
    asked = call(document, path)
    assert early(asked, Budget(tokens))
    fitted = await fit(asked, Budget(tokens), never)
    assert (fitted.call, fitted.headers) == (asked, [])


@pytest.mark.parametrize(
    "document",
    [
        {**SMALL, "max_tokens": 400},
        {**SMALL, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        {"messages": [say("user", "x" * 400)]},
    ],
)
def test_what_may_not_fit_is_counted(document: dict[str, Any]) -> None:
    assert not early(call(document, CHAT), Budget(512))


async def test_a_form_and_a_model_without_budget_pass() -> None:
    form = replace(
        call(SMALL), headers=[(b"content-type", b"multipart/form-data; boundary=x")], body=b"no JSON"
    )
    assert early(form, Budget(1))
    assert (await fit(call(SMALL), None, never)).headers == []


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (CHAT, {"messages": [say("user", "word" * 20_000)]}),
        (COMPLETIONS, {"prompt": "word" * 20_000}),
        (COMPLETIONS, {"prompt": list(range(4097))}),
        (RESPONSES, {"input": "word" * 20_000}),
        (MESSAGES, {"system": "word" * 20_000, "messages": [say("user", "word" * 20_000)]}),
        (CHAT, {**SMALL, "max_tokens": 4096}),
        (CHAT, {**SMALL, "max_completion_tokens": 1_000_000}),
        (RESPONSES, {"input": "hi", "max_output_tokens": 4096}),
        (COMPLETIONS, {"prompt": "hi", "n_predict": 5000}),
        (COMPLETION, {"prompt": "hi", "n_predict": 5000}),
        (COMPLETION, {"prompt": "word" * 20_000}),
        (COMPLETION, {"prompt": list(range(4097))}),
        (INFILL, {"input_prefix": "hi", "n_predict": 5000}),
        (INFILL, {"input_prefix": "word" * 10_000, "input_suffix": "word" * 10_000}),
        (INFILL, {"input_extra": [{"text": "word" * 20_000}]}),
    ],
)
@pytest.mark.parametrize("overflow", list(Overflow))
async def test_what_can_never_fit_is_refused_before_anything_is_loaded(
    path: str, document: dict[str, Any], overflow: Overflow
) -> None:
    with pytest.raises(ApiError, match="4096") as caught:
        early(call(document, path), Budget(4096, overflow))
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")


async def test_a_long_conversation_that_may_be_trimmed_is_not_refused_early() -> None:
    document = chat_of(100, words=1000)
    assert not early(call(document), Budget(4096, Overflow.TRIM))
    with pytest.raises(ApiError):
        early(call(document), Budget(4096))


@pytest.mark.parametrize(
    ("prompt", "answer", "fits"),
    [(99, 0, True), (100, 0, False), (60, 40, True), (60, 41, False)],
)
async def test_prompt_and_answer_together_are_counted_to_the_token(
    prompt: int, answer: int, fits: bool
) -> None:
    async def count(path: str, document: Mapping[str, Any]) -> int | None:
        return prompt

    asked = call({**SMALL, "max_tokens": answer})
    if fits:
        assert (await fit(asked, Budget(100), count)).call == asked
        return
    with pytest.raises(ApiError) as caught:
        await fit(asked, Budget(100), count)
    numbers = [int(n) for n in re.findall(r"\d+", caught.value.message)]
    assert {100, prompt, prompt + answer} <= set(numbers)
    assert "maximum context length is 100 tokens" in caught.value.message
    assert "counted by the model's tokenizer" in caught.value.message


async def test_an_engine_that_cannot_count_is_estimated_and_the_error_says_so() -> None:
    asked = call({"messages": [say("user", "x" * 3000)]})
    assert (await fit(asked, Budget(1100), cannot)).call == asked
    with pytest.raises(ApiError, match=r"1050 in the prompt \(estimated: bytes / 3"):
        await fit(asked, Budget(1000), cannot)


async def test_images_are_counted_by_their_figure_and_not_sent_to_the_tokenizer() -> None:
    words = Words()
    asked = call(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "what is it"}, PICTURE]}]}
    )
    assert not early(asked, Budget(1200))
    await fit(asked, Budget(1200), words)
    assert "image_url" not in str(words.asked)
    with pytest.raises(ApiError, match=r"\d{4} in the prompt"):
        await fit(asked, Budget(1000), words)


@pytest.mark.parametrize(
    ("words", "answer", "match"),
    [
        (5000, 100, r"^prompt is too long: \d+ tokens > 4096 maximum"),
        (3000, 3000, r"^input length and `max_tokens` exceed context limit: \d+ \+ 3000 > 4096"),
        (1, 5000, r"^input length and `max_tokens` exceed context limit: 51 \+ 5000 > 4096"),
    ],
)
async def test_anthropic_clients_find_the_words_they_look_for(words: int, answer: int, match: str) -> None:
    asked = call({"messages": [say("user", "word " * words)], "max_tokens": answer}, MESSAGES)
    with pytest.raises(ApiError) as caught:
        await fit(asked, Budget(4096), Words())
    error = caught.value
    sent = ANTHROPIC.body(error)["error"]["message"]
    assert re.match(match, sent)
    # An agent acts on the first words it knows: one of the two, never both.
    assert ("prompt is too long" in sent) is (answer == 100)


#: Tokens of chats with the templates of SmolLM2 and Gemma 3, as llama.cpp counts them.
MEASURED = [
    ([say("user", "hi")], 31, 25),
    ([say("system", "be brief"), say("user", "hi")], 17, 42),
    ([say("user", "?! :-) ... ok?")], 36, 28),
    ([say("user", "def f(x):\n    return [i for i in range(x) if i % 2 == 0]\n")], 56, 51),
    (
        [m for _ in range(15) for m in (say("user", "a"), say("assistant", "b"))] + [say("user", "c")],
        226,
        505,
    ),
]


@pytest.mark.parametrize(("messages", "smol", "gemma"), MEASURED)
def test_the_estimate_is_not_below_for_ordinary_chats(
    messages: list[dict[str, Any]], smol: int, gemma: int
) -> None:
    most = max(smol, gemma)
    for path in (CHAT, MESSAGES):
        assert most <= estimated_tokens(path, {"messages": messages}) <= most + 50 + 2 * len(messages)


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize(("text", "answer"), [("hi", 5000), ("word " * 9000, 1000)])
async def test_who_does_as_an_estimate_advises_is_not_refused_again(
    path: str, text: str, answer: int
) -> None:
    """Also where the refusal names only the least that the prompt can be."""

    async def count(path: str, document: Mapping[str, Any]) -> int | None:
        return 30 + len(document["messages"][0]["content"].split())

    budget = Budget(2048)
    document = {"messages": [say("user", text)], "max_tokens": answer}
    with pytest.raises(ApiError) as caught:
        early(call(document, path), budget)
    found = re.search(r"(at most|by at least|by about) (\d+) tokens", caught.value.message)
    assert found
    if found[1] == "at most":
        document["max_tokens"] = int(found[2])
    else:
        document["messages"] = [say("user", "word " * (9000 - int(found[2])))]
    for counter in (count, cannot):
        again = call(document, path)
        assert (await fit(again, budget, counter)).call == again


async def test_the_advice_is_right() -> None:
    asked = call({"prompt": "word " * 3000, "max_tokens": 2000}, COMPLETIONS)
    with pytest.raises(ApiError, match=r"at most (\d+) tokens of answer") as caught:
        await fit(asked, Budget(4096), Words())
    left = int(re.findall(r"at most (\d+)", caught.value.message)[0])
    assert left == 4096 - Words().count(COMPLETIONS, asked.document)
    again = call({**asked.document, "max_tokens": left}, COMPLETIONS)
    assert (await fit(again, Budget(4096), Words())).call == again


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize(
    ("prompt", "answer", "advice"),
    [
        (
            1505,
            1024,
            "Ask for a shorter answer, of at most 256 tokens, and shorten the prompt by at least 737.",
        ),
        (
            1505,
            1020,
            "Ask for a shorter answer, of at most 256 tokens, and shorten the prompt by at least 737.",
        ),
        (1505, 200, "Shorten the prompt by at least 681 tokens."),
        (1024, 0, "Shorten the prompt by at least 1 tokens."),
        (700, 1024, "Ask for at most 324 tokens of answer."),
        (700, 1000, "Ask for at most 324 tokens of answer."),
        (700, 500, "Ask for at most 324 tokens of answer, or shorten the prompt by 176."),
    ],
)
def test_no_advice_is_impossible_to_follow(path: str, prompt: int, answer: int, advice: str) -> None:
    assert too_long(path, 1024, prompt, answer, COUNTED).message.endswith(f"). {advice}")


@given(st.integers(4, 10_000), st.integers(1, 30_000), st.integers(0, 30_000))
def test_whoever_follows_the_advice_fits(budget: int, prompt: int, answer: int) -> None:
    assume(prompt + max(1, answer) > budget)
    said = too_long(CHAT, budget, prompt, answer, COUNTED).message.partition("). ")[2]
    shorter = re.search(r"at most (\d+)", said)
    less = re.search(r"shorten the prompt by at least (\d+)", said, re.IGNORECASE)
    answer, prompt = int(shorter[1]) if shorter else answer, prompt - int(less[1]) if less else prompt
    assert prompt + max(1, answer) == budget
    assert prompt >= min(budget // 2, budget - answer) > 0 or not less


@pytest.mark.parametrize(
    ("limits", "launch", "asked", "expected"),
    [
        (RequestLimits(context=ContextLimits(tokens=100)), 200, 300, 100),
        (RequestLimits(), 200, 300, 200),
        (RequestLimits(), None, 300, 150),
        (RequestLimits(), None, None, None),
        (RequestLimits(role=Role.EMBEDDING, context=ContextLimits(tokens=100)), 200, 300, None),
        (RequestLimits(role=Role.RERANK), 200, 300, None),
        (RequestLimits(role=Role.COMPLETION), 200, 300, 200),
    ],
)
async def test_where_the_budget_comes_from(
    limits: RequestLimits, launch: int | None, asked: int | None, expected: int | None
) -> None:
    made = snapshot()
    launches = {"m": LaunchSpec("m", "llama.cpp", context_tokens=launch, slots=2)}
    observation = replace(made.world.observation, preflights=(Preflight("m", context_tokens=asked),))
    made = replace(
        made,
        applied=replace(made.applied, launches=launches, limits={"m": limits}),
        world=replace(made.world, observation=observation),
    )
    budget = budget_of(made, "m")
    assert (budget.tokens if budget else None) == expected


async def test_tokens_are_counted_for_those_who_only_ask() -> None:
    asked = call(
        {"messages": [say("user", "one two three")], "system": "be brief"}, "/v1/messages/count_tokens"
    )
    assert await count_answer(asked, Words()) == (
        {"input_tokens": Words().count(MESSAGES, asked.document)},
        [],
    )
    for counter in (None, cannot):
        answer, headers = await count_answer(asked, counter)
        assert headers == [(b"x-reconciler-estimate", b"estimate")]
        assert 40 < answer["input_tokens"] < 80
