"""What of an engine's own words may be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.launch import LaunchSpec
from reconciler.excerpt import SHOWN_CHARACTERS, excerpt, hide, secrets_of


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("unknown option: --api-key CANARY", "unknown option: --api-key ***"),
        ("bad --api-key=CANARY here", "bad --api-key=*** here"),
        ("-hf-token CANARY x", "-hf-token *** x"),
        ('--api-key "CAN ARY" x', '--api-key "***" x'),
        ("Authorization: Bearer CANARY", "Authorization: Bearer ***"),
        ("Authorization: Bearer CANARY CANARY two", "Authorization: Bearer ***"),
        ("Authorization: CANARY", "Authorization: ***"),
        ("proxy-authorization: Basic Q0FOQVJZ==", "proxy-authorization: Basic ***"),
        ("cookie: a=CANARY; b=CANARY", "cookie: ***"),
        ('{"authorization": "Bearer CANARY", "a": 1}', '{"authorization": "Bearer ***", "a": 1}'),
        (r'"{\"authorization\": \"Bearer CANARY\"}"', r'"{\"authorization\": \"Bearer ***\"}"'),
        ("argv ['--api-key', 'CANARY', '-v']", "argv ['--api-key', '***', '-v']"),
        ('argv ["serve","--api-key","CANARY"]', 'argv ["serve","--api-key","***"]'),
        ("('HF_TOKEN', 'CANARY')", "('HF_TOKEN', '***')"),
        ("api_key = CANARY", "api_key = ***"),
        ("Namespace(api_key='CANARY', port=1)", "Namespace(api_key='***', port=1)"),
        ("Namespace(api_key=CANARY)", "Namespace(api_key=***)"),
        ("api_keys=['CANARY', 'CANARY'] x", "api_keys=[***] x"),
        ("token: CANARY", "token: ***"),
        ("ApiKey => CANARY", "ApiKey => ***"),
        ("HF_TOKEN=CANARY python", "HF_TOKEN=*** python"),
        ("GET /v1?api_key=CANARY", "GET /v1?api_key=***"),
        ("proxy http://user:CANARY@host:80/", "proxy http://user:***@host:80/"),
        ("sent bearer CANARY", "sent bearer ***"),
        ("bad key sk-CANARYCANARYCANARY!", "bad key ***!"),
        ("\x1b[31m--api-key\x1b[0m \x1b[1mCANARY\x1b[0m", "--api-key ***"),
        ("--api-key\tCANARY", "--api-key ***"),
        ("api key: 'CANARY", "api key: '***"),
        # What is no secret stays as it is.
        ("--password --verbose", "--password --verbose"),
        ("KeyError: 'model'", "KeyError: 'model'"),
        ("key not found in model: llama.context_length", "key not found in model: llama.context_length"),
        ("n_tokens = 512, max_tokens: 5", "n_tokens = 512, max_tokens: 5"),
        ("unknown option: --keyboard us", "unknown option: --keyboard us"),
        ("cannot open http://127.0.0.1:8080/v1", "cannot open http://127.0.0.1:8080/v1"),
        ("", ""),
    ],
)
def test_what_looks_like_a_secret_is_masked(line: str, shown: str) -> None:
    assert excerpt(line) == shown


def test_a_line_is_one_line_and_short() -> None:
    assert excerpt("a\nb\x07c\u2028d") == "a b c d"
    assert len(excerpt("x " * 1000)) == SHOWN_CHARACTERS


def test_the_secrets_of_a_launch_are_its_arguments_and_variables_of_secret_names() -> None:
    spec = LaunchSpec(
        "m",
        "command",
        command=("sh", "-c", "exec serve --hf-token in-a-script"),
        args=(
            "--api-key",
            "one-key,other-key",
            "--token=two",
            "-H",
            "Authorization: Bearer three",
            "--pin",
            "4444",
        ),
        env=(("API_KEY", "five5"), ("HOME", "/home/u"), ("PASSWORD", "abc"), ("OPTS", "--api-key sixth")),
    )
    assert secrets_of(spec) == {
        "in-a-script",
        "one-key,other-key",
        "one-key",
        "other-key",
        "three",
        "five5",
        "sixth",
    }
    assert secrets_of(None) == frozenset()


@pytest.mark.parametrize(
    ("secret", "line"),
    [
        ("hunter2", "no such model hunter2"),
        ("hunter2", "xhunter2y"),
        ('a"b\\c', 'got "a\\"b\\\\c"'),
        ("a b/c", "GET /?q=a%20b%2Fc"),
        ("schlüssel", '"schl\\u00fcssel"'),
    ],
)
def test_a_known_secret_is_found_wherever_it_stands(secret: str, line: str) -> None:
    found = excerpt(line, [secret])
    assert "***" in found
    assert secret not in found


def test_hiding_changes_nothing_else() -> None:
    assert (
        hide("  a key: of secret and secret-two\n", ["secret", "secret-two", "of"])
        == "  a key: of *** and ***\n"
    )


@given(st.text(), st.text(alphabet="abcXYZ019+/=_-.", min_size=5, max_size=40).filter(lambda s: "*" not in s))
def test_no_line_shows_a_known_secret(around: str, secret: str) -> None:
    assert secret not in hide(f"{around}{secret}{around}", [secret])


@given(st.text(max_size=400))
def test_any_text_can_be_shown(text: str) -> None:
    shown = excerpt(text)
    assert shown.isprintable()
    assert len(shown) <= SHOWN_CHARACTERS
