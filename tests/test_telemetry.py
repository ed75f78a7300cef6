"""The log: one line an event, readable or JSON, and no secret in either."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from reconciler.telemetry import configure, is_secret_name, mask_argv


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


def test_json_lines_where_nobody_watches() -> None:
    out = io.StringIO()
    configure(stream=out)
    structlog.get_logger().info("load begun", model="chat", needs=5)
    structlog.get_logger().debug("not at this level")
    (line,) = out.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "load begun", "level": "info", "model": "chat", "needs": 5}


@pytest.mark.parametrize(
    ("form", "stream", "json_lines"), [("text", io.StringIO, False), ("json", Terminal, True)]
)
def test_a_variable_states_the_form(
    form: str, stream: type[io.StringIO], json_lines: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILE_LOG", form)
    out = stream()
    configure(stream=out)
    structlog.get_logger().info("load begun", model="chat")
    assert out.getvalue().startswith("{") is json_lines


def test_one_plain_line_for_people() -> None:
    out = io.StringIO()
    configure(json=False, stream=out)
    structlog.get_logger().warning(
        "load failed",
        model="chat",
        took=3.14159,
        error="exit 1\nrest",
        argv=["serve", "--api-key", "k", "a b"],
    )
    time, _, rest = out.getvalue().partition(" ")
    assert len(time) == len("12:00:00")
    assert rest == (
        'warning load failed model=chat took=3.14 error="exit 1\\nrest" argv=[serve --api-key *** "a b"]\n'
    )


def test_what_programs_need_stands_beside_the_other_fields_and_is_not_told_to_people() -> None:
    data = {"reason": "Warm", "bytes": 183 << 20, "api_key": "secret"}
    for json_lines in (True, False):
        out = io.StringIO()
        configure(json=json_lines, stream=out)
        structlog.get_logger().info("loaded", model="chat", seconds=2.5, data=dict(data))
        if json_lines:
            event = json.loads(out.getvalue())
            del event["timestamp"]
            assert event == {
                "event": "loaded",
                "level": "info",
                "model": "chat",
                "seconds": 2.5,
                "reason": "Warm",
                "bytes": 183 << 20,
                "api_key": "***",
            }
        else:
            assert out.getvalue().partition(" ")[2] == "loaded model=chat seconds=2.5\n"


def test_a_terminal_gets_people_lines_in_colour() -> None:
    out = Terminal()
    configure(stream=out)
    structlog.get_logger().error("gone", model="chat")
    assert "\x1b[31merror\x1b[0m gone" in out.getvalue()


def test_a_traceback_follows_its_line() -> None:
    out = io.StringIO()
    configure(json=False, stream=out)
    try:
        int("odd")
    except ValueError:
        structlog.get_logger().exception("pass failed")
    first, *rest = out.getvalue().splitlines()
    assert first.endswith("error pass failed")
    assert rest[-1].startswith("ValueError: invalid literal")


def test_the_standard_library_is_redirected_and_masked() -> None:
    out = io.StringIO()
    configure(json=True, stream=out)
    logging.getLogger("uvicorn").warning("header %s", "Authorization: Bearer abc.def")
    logging.getLogger("uvicorn").info("chatter")
    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["event"] == "header Authorization: Bearer ***"


@pytest.mark.parametrize(
    ("given", "logged"),
    [
        ({"api_key": "x"}, {"api_key": "***"}),
        (
            {"headers": {"Authorization": "Bearer x", "Host": "h"}},
            {"headers": {"Authorization": "***", "Host": "h"}},
        ),
        ({"env": {"HF_TOKEN": "x", "HOME": "/"}}, {"env": {"HF_TOKEN": "***", "HOME": "/"}}),
        ({"nested": [{"password": "x"}, 1]}, {"nested": [{"password": "***"}, 1]}),
        ({"argv": ("a", "--token=x")}, {"argv": ["a", "--token=***"]}),
        ({"text": "sent bearer abc"}, {"text": "sent bearer ***"}),
        ({"max_tokens": 5, "api_key": None}, {"max_tokens": 5, "api_key": None}),
    ],
)
def test_secrets_are_masked(given: dict[str, object], logged: dict[str, object]) -> None:
    out = io.StringIO()
    configure(json=True, stream=out)
    structlog.get_logger().info("e", **given)
    event = json.loads(out.getvalue())
    assert {key: event[key] for key in logged} == logged


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (["s", "--key", "x", "y"], ["s", "--key", "***", "y"]),
        (["s", "--api-key=x"], ["s", "--api-key=***"]),
        (["s", "-hf-token", "x"], ["s", "-hf-token", "***"]),
        (["s", "--password", "--verbose"], ["s", "--password", "--verbose"]),
        (["s", "HF_TOKEN=x"], ["s", "HF_TOKEN=***"]),
        (["s", "-H", "Authorization: Bearer x"], ["s", "-H", "Authorization: Bearer ***"]),
        (["s", "--max-tokens", "5", "--keyboard", "us"], ["s", "--max-tokens", "5", "--keyboard", "us"]),
        ([], []),
    ],
)
def test_argv_is_masked(argv: list[str], masked: list[str]) -> None:
    assert mask_argv(argv) == masked


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("secretName", True),
        ("client-secret", True),
        ("Authorization", True),
        ("monkey", False),
        ("tokenizer", False),
        ("n_tokens", False),
        ("tokens_per_second", False),
        ("model", False),
    ],
)
def test_secret_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="loud"):
        configure(level="loud")


def test_logging_does_not_bring_rich_along() -> None:
    code = (
        "import reconciler.telemetry as t, sys; t.configure(json=True); print('rich.console' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_note_about_dropped_lines_has_the_form_of_the_log() -> None:
    code = (
        "import reconciler.telemetry as t; t.configure(json=True); o = t._Open.outlet; o._limit = 0;"
        "o.write('lost'); o._limit = 9; o.write('kept\\n'); t.flush()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told, kept = done.stderr.splitlines()
    event = json.loads(told)
    assert (event["event"], event["level"], kept) == ("1 log line was dropped", "warning", "kept")


def test_a_quote_within_a_value_does_not_end_it() -> None:
    stream = io.StringIO()
    configure(json=False, stream=stream)
    structlog.get_logger().error("refused", error='unknown key "prority"')
    assert 'error="unknown key \\"prority\\""' in stream.getvalue()
