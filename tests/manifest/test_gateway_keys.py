"""Gates, limits towards clients, context overflow and virtual models: what each key becomes, and wrong ones."""

from pathlib import Path

import pytest

from manifest_texts import HEAD, accept, load, refuse
from reconciler.core.launch import Role
from reconciler.manifest import ManifestError
from reconciler.manifest.applied import (
    GENERATING,
    STANDARD_GATES,
    ContextLimits,
    Gate,
    Overflow,
    Rule,
    Strategy,
    When,
)

HEAVY, LLM = STANDARD_GATES["heavy"], STANDARD_GATES["llm"]


def gateway(text: str, models: str = "{}") -> str:
    return f"{HEAD}gateway: {{{text}}}\nmodels: {models}\n"


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("{}", {"heavy": HEAVY, "llm": LLM}),
        ("{heavy: null}", {"llm": LLM}),
        ("{heavy: ~, llm: }", {}),
        ("{heavy: {limit: 2}}", {"heavy": Gate(2, HEAVY.above, GENERATING), "llm": LLM}),
        ("{heavy: {above: 20GB}, llm: ~}", {"heavy": Gate(1, 20 * 10**9, GENERATING)}),
        (
            "{llm: {roles: [embedding]}, heavy: ~}",
            {"llm": Gate(2, None, frozenset({Role.EMBEDDING}))},
        ),
        ("{heavy: ~, llm: ~, disk: {limit: 3}}", {"disk": Gate(3)}),
        ("{heavy: ~, llm: ~, disk: {limit: 3, above: 1GB}}", {"disk": Gate(3, 10**9, GENERATING)}),
    ],
)
def test_gates(tmp_path: Path, text: str, gates: dict[str, Gate]) -> None:
    assert accept(tmp_path, gateway(f"gates: {text}")).gateway.gates == gates


def test_vision_generates() -> None:
    assert frozenset({Role.CHAT, Role.COMPLETION, Role.VISION}) == GENERATING


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("", None),
        ("gate: auto", None),
        ("gate: none", ()),
        ("gate: heavy", ("heavy",)),
        ("gate: [llm, heavy]", ("llm", "heavy")),
    ],
)
def test_the_gates_of_a_model(tmp_path: Path, text: str, gates: tuple[str, ...] | None) -> None:
    assert accept(tmp_path, f"{HEAD}models: {{a: {{{text}}}}}\n").limits["a"].gates == gates


WRONG_GATEWAY = [
    ("max_body: 1023KiB", "size", "1MiB to 2GiB"),
    ("max_body: 3GiB", "size", "1MiB to 2GiB"),
    ("max_body: 64M", "size", "64MB"),
    ("max_connections: 0", "range", "1 or more"),
    ("max_connections: 65537", "range", "65536 or less"),
    ("comments: 1", "wrong-type", ""),
    ("comments: 'true'", "wrong-type", ""),
    ("gates: {heavy: {limit: 0}}", "range", "1 or more"),
    ("gates: {disk: {}}", "missing-key", "limit"),
    ("gates: {disk: ~}", "gate", "heavy, llm"),
    ("gates: {hevy: ~}", "gate", "did you mean heavy?"),
    ("gates: {none: {limit: 1}}", "gate", "meaning of their own"),
    ("gates: {'a b': {limit: 1}}", "gate", "letters"),
    ("gates: {heavy: 1}", "wrong-type", ""),
    ("gates: {heavy: {limits: 1}}", "unknown-key", "did you mean limit?"),
    ("gates: {heavy: {limit: ~}}", "empty-value", ""),
    ("gates: {heavy: {roles: [chats]}}", "choice", "did you mean chat?"),
    ("maxBody: 1", "unknown-key", "did you mean max_body?"),
    ("apiKeys: [a]", "unknown-key", "did you mean api_keys?"),
]


@pytest.mark.parametrize(("text", "code", "hint"), WRONG_GATEWAY)
def test_a_wrong_gateway(tmp_path: Path, text: str, code: str, hint: str) -> None:
    (found,) = refuse(tmp_path, gateway(text))
    assert (found.line, found.code) == (2, code)
    assert hint in found.hint


def test_comments_may_come_from_the_environment(tmp_path: Path) -> None:
    assert accept(tmp_path, gateway("comments: '${env:C:-true}'")).gateway.comments
    (found,) = refuse(tmp_path, gateway("comments: '${env:C:-CANARY}'"))
    assert found.code == "wrong-type"


def model(text: str) -> str:
    others = (
        "  b: {engine: command, command: [x], role: embedding, aliases: [beta]}\n  c: {aliases: [gamma]}\n"
    )
    return f"{HEAD}models:\n  a:\n    engine: command\n    command: [x]\n    {text}\n{others}"


WRONG_MODEL = [
    ("gate: hevy", "gate", "did you mean heavy?"),
    ("gate: disk", "gate", "heavy, llm"),
    ("gate: [llm, disk]", "gate", "gateway.gates"),
    ("gate: []", "gate", "`none`"),
    ("gate: 1", "gate", "`none`"),
    ("concurrency: 0", "concurrency", "1 or more"),
    ("concurrency: many", "concurrency", "`auto`"),
    ("concurrency: true", "concurrency", "`auto`"),
    ("concurrencyLimit: 4", "unknown-key", "did you mean concurrency?"),
    ("reload_after: never", "duration", ""),
    ("timeouts: {chunk: 0}", "duration", "more than 0"),
    ("context: {overflow: drop}", "choice", "reject, trim, summarize"),
    ("context: {overflow: summarize}", "summarizer", "name of a chat model"),
    ("context: {overflow: summarize, summarizer: a}", "summarizer", "another chat model"),
    ("context: {overflow: summarize, summarizer: gama}", "unknown-model", "did you mean gamma?"),
    ("context: {overflow: summarize, summarizer: zzz}", "unknown-model", "models:"),
    ("context: {overflow: summarize, summarizer: beta}", "summarizer", ""),
    ("context: {summarizer: zzz}", "unknown-model", "models:"),
    ("context: {summarizer: gamma}", "summarizer", "write `overflow: summarize`"),
    ("context: {overflow: trim, summarizer: gamma}", "summarizer", "write `overflow: summarize`"),
    ("role: chats", "choice", "did you mean chat?"),
    ("healthCheckTimeout: 60", "unknown-key", "timeouts.load"),
    ("cmdStop: x", "unknown-key", "timeouts.stop"),
    ("unloadTimeout: 1", "unknown-key", "timeouts.stop"),
    ("checkEndpoint: /h", "unknown-key", "did you mean health?"),
    ("sendLoadingState: true", "unknown-key", "gateway.comments"),
    ("max_connections: 1", "misplaced-key", "gateway.max_connections"),
    ("min_tokens: 1", "misplaced-key", "virtual.NAME.rules[].when.min_tokens"),
]


@pytest.mark.parametrize(("text", "code", "hint"), WRONG_MODEL)
def test_a_wrong_model(tmp_path: Path, text: str, code: str, hint: str) -> None:
    (found,) = refuse(tmp_path, model(text))
    assert (found.line, found.code) == (6, code)
    assert hint in found.hint


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("apiKeys: [a]", "gateway.api_keys"),
        ("selectors: {}", "virtual"),
        ("groups: {}", "gateway.gates"),
        ("healthCheckTimeout: 60", "timeouts.load"),
        ("globalTTL: 60", "defaults.idle_ttl"),
        ("startPort: 5800", "machine.ports"),
        ("macros: {}", "x-"),
        ("hooks: {}", "residency"),
        ("matrix: {}", "residency"),
        ("virtuals: {}", "did you mean virtual?"),
    ],
)
def test_words_of_other_programs_at_the_top(tmp_path: Path, line: str, hint: str) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models: {{}}\n{line}\n")
    assert (found.line, found.code) == (3, "unknown-key")
    assert hint in found.hint


def test_a_summarizer_may_be_an_alias_and_a_default(tmp_path: Path) -> None:
    defaults = "defaults: {context: {overflow: summarize, summarizer: gamma}}\n"
    text = f"{HEAD}{defaults}models:\n  a: {{}}\n  c: {{aliases: [gamma], context: {{overflow: trim}}}}\n"
    limits = accept(tmp_path, text).limits
    assert limits["a"].context == ContextLimits(None, Overflow.SUMMARIZE, "c")
    assert limits["c"].context.overflow is Overflow.TRIM
    (found,) = refuse(tmp_path, text.replace(", context: {overflow: trim}", ""))
    assert (found.line, found.code) == (2, "summarizer")


def test_a_summarizer_by_default_is_for_those_who_summarise(tmp_path: Path) -> None:
    def text(overflow: str, models: str) -> str:
        return f"{HEAD}defaults: {{context: {{overflow: {overflow}, summarizer: c}}}}\nmodels: {models}\n"

    accept(tmp_path, text("trim", "{a: {context: {overflow: summarize}}, c: {}}"))
    accept(tmp_path, text("trim", "{}"))
    (found,) = refuse(tmp_path, text("trim", "{a: {}, c: {}}"))
    assert (found.line, found.code) == (2, "summarizer")
    assert "no effect where no model summarises" in found.message


@pytest.mark.parametrize(
    ("key", "warned"),
    [
        ("context: {overflow: trim}", True),
        ("context: {overflow: summarize, summarizer: c}", True),
        ("context: {overflow: trim, max_tokens: 2048}", False),
        ("context: {overflow: reject}", False),
        ("role: chat", False),
    ],
)
def test_a_prompt_of_any_length_is_never_too_long(tmp_path: Path, key: str, warned: bool) -> None:
    warnings = accept(tmp_path, model(key)).warnings
    assert len(warnings) == warned
    assert all('model "a": `overflow: ' in text and "context.max_tokens" in text for text in warnings)


def test_what_to_do_with_long_prompts_may_be_a_default_for_models_that_it_cannot_help(tmp_path: Path) -> None:
    models = "models: {a: {engine: command, command: [x]}}\n"
    assert accept(tmp_path, f"{HEAD}defaults: {{context: {{overflow: trim}}}}\n{models}").warnings == ()


@pytest.mark.parametrize(
    "key", ["context: {overflow: trim}", "gate: none", "concurrency: 3", "reload_after: 9"]
)
def test_none_of_these_restarts_a_model(tmp_path: Path, key: str) -> None:
    plain, changed = (accept(tmp_path, model(text)) for text in ("role: chat", key))
    assert plain.digest != changed.digest
    assert plain.manifest.models[0].digest == changed.manifest.models[0].digest


def test_a_role_restarts_a_model(tmp_path: Path) -> None:
    digests = {accept(tmp_path, model(f"role: {role.value}")).manifest.models[0].digest for role in Role}
    assert len(digests) == len(Role)


MODELS = "models:\n  a: {aliases: [alpha]}\n  b: {}\n  c: {}\n"


def virtual(text: str) -> str:
    return f"{HEAD}{MODELS}virtual:\n  auto: {{{text}}}\n"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("use: a", (Rule(When(), ("a",)),)),
        ("use: [alpha, b], strategy: fits", (Rule(When(), ("a", "b"), Strategy.FITS),)),
        ("rules: [{use: b}]", (Rule(When(), ("b",)),)),
        ("rules: [{use: b, when: {}}]", (Rule(When(), ("b",)),)),
        (
            "rules: [{when: {code: true}, use: b}, {use: c, strategy: first}], strategy: ready",
            (Rule(When(code=True), ("b",), Strategy.READY), Rule(When(), ("c",))),
        ),
        (
            "rules: [{when: {header: {X-A: '1'}, min_tokens: 0}, use: b}], use: c",
            (Rule(When(header=("x-a", "1"), min_tokens=0), ("b",)), Rule(When(), ("c",))),
        ),
    ],
)
def test_virtual_models(tmp_path: Path, text: str, rules: tuple[Rule, ...]) -> None:
    applied = accept(tmp_path, virtual(text))
    assert applied.virtual["auto"].rules == rules
    assert "auto" not in applied.routes


WRONG_VIRTUAL = [
    ("", "virtual", 3, "add `use: MODEL`"),
    ("rules: [{when: {code: true}, use: a}]", "virtual", 3, "add `use: MODEL`"),
    ("use: d", "unknown-model", 15, "models:"),
    ("use: alpa", "unknown-model", 15, "did you mean alpha?"),
    ("use: [a, d]", "unknown-model", 19, "models:"),
    ("use: auto", "virtual", 15, "a model or an alias"),
    ("use: []", "empty-value", 15, "give a value"),
    ("use: [a, a]", "duplicate", 19, "delete one"),
    ("use: [a, b, alpha]", "duplicate", 22, "delete one"),
    ("rules: [{when: {code: true}, use: [b, b]}], use: b", "duplicate", 48, "delete one"),
    ("use: ''", "empty-value", 15, "give a value"),
    ("rules: [{when: {code: true}, use: d}], use: a", "unknown-model", 44, "models:"),
    ("rules: [{when: {code: true}}], use: a", "missing-key", 18, "use: MODEL"),
    ("rules: [{use: a}, {when: {code: true}, use: b}]", "unreachable-rule", 28, "a `when`"),
    ("rules: [{use: a}], use: b", "unreachable-rule", 34, "a `when`"),
    ("rules: [{when: {codes: true}, use: a}], use: b", "unknown-key", 26, "did you mean code?"),
    ("rules: [{when: {code: yes}, use: a}], use: b", "wrong-type", 32, ""),
    ("rules: [{when: {role: vision}, use: a}], use: b", "choice", 32, "image: true"),
    ("rules: [{when: {role: classify}, use: a}], use: b", "choice", 32, "chat, completion"),
    ("rules: [{when: {min_tokens: -1}, use: a}], use: b", "range", 38, "0 or more"),
    ("rules: [{when: {min_tokens: 9, max_tokens: 8}, use: a}], use: b", "range", 38, "swap"),
    ("rules: [{when: {header: {}}, use: a}], use: b", "empty-value", 34, "give a value"),
    ("rules: [{when: {header: {A: b, C: d}}, use: a}], use: b", "range", 34, "one of them"),
    ("rules: [{when: {header: {'A B': c}}, use: a}], use: b", "header", 35, "X-Task"),
    ("rules: [{when: {header: {Cookie: c}}, use: a}], use: b", "header", 35, "gateway.api_keys"),
    ("rules: [{when: {header: {A: 1}}, use: a}], use: b", "quote-it", 38, "quote it"),
    ("rules: [{when: {code: ~}, use: a}], use: b", "empty-value", 32, ""),
    ("use: a, strategy: best", "choice", 28, "first, ready, fits"),
    ("use: a, rule: []", "unknown-key", 18, "did you mean rules?"),
]


@pytest.mark.parametrize(("text", "code", "col", "hint"), WRONG_VIRTUAL)
def test_a_wrong_virtual_model(tmp_path: Path, text: str, code: str, col: int, hint: str) -> None:
    (found,) = refuse(tmp_path, virtual(text))
    assert (found.line, found.col, found.code) == (7, col, code)
    assert hint in found.hint


@pytest.mark.parametrize(("name", "place"), [("a", "3:3"), ("alpha", "3:17"), ("b", "4:3")])
def test_a_virtual_model_may_not_be_called_like_a_real_one(tmp_path: Path, name: str, place: str) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}{MODELS}virtual:\n  {name}: {{use: c}}\n")
    assert (found.line, found.col, found.code) == (7, 3, "name-clash")
    assert f"m.yaml:{place}" in found.message
    assert "this virtual model's name" in found.message


def test_a_name_that_is_no_name_is_none_for_a_virtual_model(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}{MODELS}virtual:\n  '../x': {{use: c}}\n")
    assert (found.line, found.code) == (7, "name")


def test_virtual_models_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(f"{HEAD}{MODELS}virtual: {{auto: {{use: a}}}}\n")
    (tmp_path / "two.yaml").write_text(f"{HEAD}virtual: {{best: {{use: [b, c]}}}}\n")
    assert list(load(tmp_path).virtual) == ["auto", "best"]
    (tmp_path / "two.yaml").write_text(f"{HEAD}virtual: {{auto: {{use: b}}}}\n")
    with pytest.raises(ManifestError, match=r"the virtual model .auto. is defined twice"):
        load(tmp_path)
    # What may be named in a file that cannot be read is not missed.
    (tmp_path / "one.yaml").write_text("models: [")
    with pytest.raises(ManifestError) as caught:
        load(tmp_path)
    assert {d.code for d in caught.value.diagnostics}.isdisjoint({"unknown-model", "virtual"})
