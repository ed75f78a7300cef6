"""Virtual models: what a request is like, how models stand, and which of them answers."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_rig import snapshot
from reconciler.board import Snapshot
from reconciler.core.launch import Role
from reconciler.core.machine import Evicting, Loading
from reconciler.core.types import (
    Account,
    Demand,
    Evict,
    Instance,
    Load,
    ModelSpec,
    Outcome,
    Plan,
    Preflight,
    Reason,
    Verdict,
)
from reconciler.gateway.call import Call
from reconciler.gateway.routing.choose import Choice, Facts, Standing, choose, facts_of, states_of
from reconciler.manifest import load_manifest
from reconciler.manifest.applied import Rule, Strategy, Virtual, When

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
CODE = "def f(x):\n    return x + 1\n"
ROOT = Path(__file__).parents[2]


def request(document: Any, path: str = CHAT, *headers: tuple[bytes, bytes]) -> Call:
    """Return a call with a JSON body."""
    kind = (b"content-type", b"application/json")
    body = json.dumps(document).encode()
    return Call(path, path.encode(), "POST", [kind, *headers], body, "auto")


def chat(*turns: Any, **fields: Any) -> dict[str, Any]:
    """Return a chat: contents of the user and the model in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": content} for n, content in enumerate(turns)]
    return {"model": "auto", "messages": messages, **fields}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
ANTHROPIC_IMAGE = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": CODE}]}
RESULT_IMAGE = {"type": "tool_result", "tool_use_id": "t", "content": [ANTHROPIC_IMAGE]}


@pytest.mark.parametrize(
    ("document", "path", "fact", "value"),
    [
        (chat("hello"), CHAT, "image", False),
        (chat([{"type": "text", "text": "what?"}, IMAGE]), CHAT, "image", True),
        (chat([IMAGE], "a cat", "and now?"), CHAT, "image", True),
        (chat("an image_url of type image"), CHAT, "image", False),
        (chat([ANTHROPIC_IMAGE]), MESSAGES, "image", True),
        (chat([RESULT_IMAGE]), MESSAGES, "image", True),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            RESPONSES,
            "image",
            True,
        ),
        ({"input": "hello"}, RESPONSES, "image", False),
        (chat(CODE), CHAT, "code", True),
        (chat("hello", "hi", CODE), CHAT, "code", True),
        (chat(CODE, "nice", "thanks!"), CHAT, "code", False),
        (chat("hello", CODE, "thanks!"), CHAT, "code", False),
        (chat([{"type": "text", "text": CODE}]), MESSAGES, "code", True),
        # What a tool found is nobody's words: an agent's rounds all go where its first one went.
        (chat("hello", "looking", [RESULT]), MESSAGES, "code", False),
        (chat(CODE, "looking", [RESULT]), MESSAGES, "code", True),
        ({"input": CODE}, RESPONSES, "code", True),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": CODE}]}]},
            RESPONSES,
            "code",
            True,
        ),
        ({"prompt": CODE}, "/v1/completions", "code", True),
        ({"prompt": ["a", CODE]}, "/v1/completions", "code", True),
        ({"prompt": [1, 2, 3]}, "/v1/completions", "code", False),
        ({"input_prefix": "a", "input_suffix": "b"}, "/infill", "code", True),
        ({"messages": []}, CHAT, "code", False),
        ({"messages": "odd"}, CHAT, "code", False),
        ({"messages": [7, {"role": "user", "content": {"a": 1}}]}, CHAT, "code", False),
        (chat("a"), CHAT, "tools", False),
        (chat("a", tools=[]), CHAT, "tools", False),
        (chat("a", tools=[{"type": "function"}]), CHAT, "tools", True),
        (chat("a", functions=[{"name": "f"}]), CHAT, "tools", True),
        (chat("a"), CHAT, "role", Role.CHAT),
        ({"input": ""}, RESPONSES, "role", Role.CHAT),
        (chat("a"), "/v1/messages/count_tokens", "role", Role.CHAT),
        ({"prompt": ""}, "/v1/completions", "role", Role.COMPLETION),
        ({"input": ""}, "/v1/embeddings", "role", Role.EMBEDDING),
        ({"query": ""}, "/v1/rerank", "role", Role.RERANK),
        ({"input": ""}, "/v1/audio/speech", "role", Role.TTS),
        ({}, "/v1/audio/transcriptions", "role", Role.ASR),
        ({"prompt": ""}, "/v1/images/generations", "role", Role.IMAGE),
        ({"content": ""}, "/tokenize", "role", None),
    ],
)
def test_what_a_request_is_like(document: Any, path: str, fact: str, value: object) -> None:
    assert getattr(facts_of(request(document, path)), fact) == value


@pytest.mark.parametrize(
    ("document", "path", "low", "high"),
    [
        (chat("word " * 3000), CHAT, 4500, 5500),
        (chat("word " * 3000), "/v1/messages/count_tokens", 4500, 5500),
        # An image is a figure, not nine thousand letters.
        (chat([IMAGE]), CHAT, 900, 1100),
        ({"input": "word " * 3000}, "/v1/embeddings", 4500, 5500),
    ],
)
def test_how_long_a_prompt_is(document: Any, path: str, low: int, high: int) -> None:
    assert low < facts_of(request(document, path)).tokens < high


def test_a_form_has_no_text() -> None:
    kind = (b"content-type", b"multipart/form-data; boundary=x")
    path = "/v1/audio/transcriptions"
    facts = facts_of(Call(path, path.encode(), "POST", [kind], b"RIFF" * 9999, "auto"))
    assert (facts.role, facts.tokens, facts.image, facts.code, facts.tools) == (
        Role.ASR,
        0,
        False,
        False,
        False,
    )


class Unread(Call):
    """A request whose body must not be looked at."""

    @property
    def document(self) -> dict[str, Any]:
        raise AssertionError("nobody asked for this")


def test_only_rules_that_need_the_body_read_it() -> None:
    facts = facts_of(Unread(CHAT, b"", "POST", [(b"x-task", b"code")], b"{", "auto"))
    rules = (
        Rule(When(role=Role.EMBEDDING, code=True), ("embed",)),
        Rule(When(header=("x-other", None), image=True), ("vision",)),
        Rule(When(header=("x-task", "code")), ("coder",)),
        Rule(When(code=True), ("chat",)),
        Rule(When(), ("chat",)),
    )
    assert choose(Virtual("auto", rules), facts, {}).model == "coder"


AUTO = Virtual(
    "auto",
    (
        Rule(When(role=Role.EMBEDDING), ("embed",)),
        Rule(When(image=True), ("vision",)),
        Rule(When(header=("x-task", "write")), ("writer",)),
        Rule(When(header=("x-any", None), tools=True), ("tooled",)),
        Rule(When(code=True), ("coder", "chat")),
        Rule(When(min_tokens=1000, max_tokens=4000), ("long",)),
        Rule(When(), ("chat",)),
    ),
)


@pytest.mark.parametrize(
    ("document", "path", "headers", "why"),
    [
        ({"input": "x"}, "/v1/embeddings", (), "auto -> embed (rule 1: role embedding)"),
        (chat([IMAGE]), CHAT, (), "auto -> vision (rule 2: image)"),
        (chat(CODE), CHAT, ((b"x-task", b"write"),), "auto -> writer (rule 3: header x-task)"),
        (chat(CODE), CHAT, ((b"x-task", b"other"),), "auto -> coder (rule 5: code)"),
        (
            chat("a", tools=[{}]),
            CHAT,
            ((b"x-any", b""),),
            "auto -> tooled (rule 4: header x-any, tools)",
        ),
        (chat("a"), CHAT, ((b"x-any", b"1"),), "auto -> chat (rule 7: otherwise)"),
        (
            chat("word " * 1200),
            CHAT,
            (),
            "auto -> long (rule 6: 1000 tokens or more, 4000 tokens or fewer)",
        ),
        (chat("word " * 9000), CHAT, (), "auto -> chat (rule 7: otherwise)"),
        (chat("Write a loop in Python."), CHAT, (), "auto -> chat (rule 7: otherwise)"),
    ],
)
def test_the_first_rule_that_holds_decides(
    document: Any, path: str, headers: tuple[tuple[bytes, bytes], ...], why: str
) -> None:
    choice = choose(AUTO, facts_of(request(document, path, *headers)), {})
    assert choice.why == why
    assert choice.header == (b"x-reconciler-route", why.encode())


def test_a_name_of_any_script_fits_into_the_header() -> None:
    name, value = Choice("Café", "aütö -> Café (rule 1: 100% otherwise)").header
    assert (name, value) == (
        b"x-reconciler-route",
        b"a%C3%BCt%C3%B6 -> Caf%C3%A9 (rule 1: 100%25 otherwise)",
    )


READY, COMING, FITS = Standing(ready=True), Standing(coming=True), Standing(fits=True)
COLD, NEVER = Standing(), Standing(never=True)
F, R, T = Strategy.FIRST, Strategy.READY, Strategy.FITS


@pytest.mark.parametrize(
    ("strategy", "a", "b", "c", "model", "remark"),
    [
        (F, COLD, READY, FITS, "a", ""),
        (F, NEVER, COLD, READY, "b", "; a cannot be loaded"),
        (F, NEVER, NEVER, NEVER, "a", ""),
        (R, COLD, COLD, COLD, "a", ""),
        (R, COLD, COLD, READY, "c", "; ready"),
        (R, READY, READY, READY, "a", ""),
        # It takes requests now; the other one will only later.
        (R, COMING, COLD, READY, "c", "; ready"),
        # Somebody waits for it already: another cold one beside it would displace one of the two.
        (R, COLD, COMING, COLD, "b", "; loading"),
        (R, FITS, COMING, FITS, "b", "; loading"),
        (R, NEVER, COLD, COLD, "b", "; a cannot be loaded"),
        (R, NEVER, COLD, READY, "c", "; ready"),
        (T, COLD, COLD, COLD, "a", ""),
        (T, COLD, FITS, READY, "b", "; fits"),
        (T, COLD, COMING, FITS, "b", "; loading"),
        (T, COLD, COLD, READY, "c", "; ready"),
        (T, FITS, READY, READY, "a", ""),
        (T, NEVER, COLD, FITS, "c", "; fits"),
    ],
)
def test_strategies(
    strategy: Strategy, a: Standing, b: Standing, c: Standing, model: str, remark: str
) -> None:
    virtual = Virtual("auto", (Rule(When(), ("a", "b", "c"), strategy),))
    choice = choose(virtual, facts_of(request(chat("hi"))), {"a": a, "b": b, "c": c})
    assert choice == Choice(model, f"auto -> {model} (rule 1: otherwise{remark})")


STANDINGS = st.builds(Standing, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@given(
    st.dictionaries(st.sampled_from("abcd"), STANDINGS),
    st.permutations("abcd"),
    st.sampled_from(Strategy),
)
def test_a_hopeless_model_is_chosen_only_where_all_are(
    states: dict[str, Standing], use: list[str], strategy: Strategy
) -> None:
    states = {m: replace(s, never=s.never and not s.ready) for m, s in states.items()}
    facts = Facts(request(chat("hi")))
    model = choose(Virtual("v", (Rule(When(), tuple(use), strategy),)), facts, states).model
    hopeless = {m for m in use if m in states and states[m].never}
    assert model not in hopeless or hopeless == set(use)
    if strategy is Strategy.READY and any(s.ready for s in states.values()):
        assert states[model].ready


def world(
    *instances: Instance,
    plan: Plan | None = None,
    demands: tuple[Demand, ...] = (),
    state: Any = None,
    preflights: tuple[Preflight, ...] = (),
) -> Snapshot:
    """Return a snapshot with two models, `a` (100 bytes, 150 while loading) and `b` (of unknown size)."""
    made = snapshot(ModelSpec("a", "d", steady=100, peak=150), ModelSpec("b", "d"), plan=plan)
    observation = replace(made.world.observation, instances=instances, demands=demands, preflights=preflights)
    made = replace(made, world=replace(made.world, observation=observation))
    return made if state is None else replace(made, state=state)


def instance(model: str, *, ready: bool = True, digest: str = "d", broken: bool = False) -> Instance:
    """Return a process of a model."""
    now = time.monotonic()
    return Instance(model, digest, 1, 1, 1, ready, 0, 0, now, now, broken=broken)


def planned(free: int | None, *verdicts: Verdict) -> Plan:
    """Return a plan with so many bytes free."""
    return Plan(0, 1, Account(1000, 0, 0, free), (), verdicts)


LOADING = Loading(Load("a", "d", 1, Reason.DEMANDED), 0.0, 1.0)
EVICTING = Evicting(Evict("a", 1, 1, 1, Reason.MAKE_ROOM), 0.0, 1.0)


@pytest.mark.parametrize(
    ("seen", "standing"),
    [
        (world(), COLD),
        (world(instance("a")), READY),
        (world(instance("a", ready=False)), COMING),
        (world(instance("a", digest="old")), COLD),
        (world(instance("a", broken=True)), COLD),
        (world(state=LOADING), COMING),
        (world(instance("a"), state=EVICTING), COLD),
        (world(demands=(Demand("a", waiting=1),)), COMING),
        (world(demands=(Demand("a", wanted=True),)), COMING),
        (world(demands=(Demand("a", active=1),)), COLD),
        (world(plan=planned(150)), FITS),
        (world(plan=planned(149)), COLD),
        (world(plan=planned(None)), COLD),
        (world(plan=planned(0, Verdict("a", Outcome.BLOCKED, Reason.NEVER_FITS))), NEVER),
        (world(plan=planned(0, Verdict("a", Outcome.COLD, Reason.NEVER_FITS))), NEVER),
        (world(plan=planned(0, Verdict("a", Outcome.BLOCKED, Reason.NOT_STARTABLE))), NEVER),
        (world(plan=planned(0, Verdict("a", Outcome.BLOCKED, Reason.BACKING_OFF))), NEVER),
        (world(plan=planned(0, Verdict("a", Outcome.BLOCKED, Reason.INSUFFICIENT_MEMORY))), COLD),
    ],
)
def test_how_a_model_stands(seen: Snapshot, standing: Standing) -> None:
    assert states_of(seen)["a"] == standing


def test_what_clients_want_now_counts_more_than_what_was_seen() -> None:
    assert states_of(world(), [Demand("a", waiting=2)])["a"].coming
    assert states_of(world(), [Demand("a", away=("b",))])["a"].coming
    assert not states_of(world(demands=(Demand("a", waiting=1),)), [])["a"].coming


def test_a_model_of_unknown_size_fits_nowhere() -> None:
    assert not states_of(world(plan=planned(10**12)))["b"].fits
    known = world(plan=planned(10), preflights=(Preflight("b", steady=10),))
    assert states_of(known)["b"].fits


@pytest.mark.parametrize(
    ("document", "headers", "model"),
    [
        (chat("Hello!"), (), "small"),
        (chat(CODE), (), "coder"),
        (chat("Continue my novel.\n\n" + "It was a dark night. " * 400), (), "writer"),
        (chat("A poem, please."), ((b"x-task", b"writing"),), "writer"),
        (chat([{"type": "text", "text": "What is this?"}, IMAGE]), (), "vision"),
    ],
)
def test_the_example_sends_each_task_to_its_model(
    document: Any, headers: tuple[tuple[bytes, bytes], ...], model: str
) -> None:
    applied = load_manifest(ROOT / "examples" / "virtual", environ={})
    facts = facts_of(request(document, CHAT, *headers))
    assert choose(applied.virtual["auto"], facts, {}).model == model
