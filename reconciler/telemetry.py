"""Structured logging to stderr: lines for people on a terminal, JSON otherwise, and never a secret."""

import atexit
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TextIO, cast

# structlog loads all of rich if it can, for a renderer not used here: 5 MB and 40 ms in a program that must stay small.
_WITHOUT_RICH: Final = "rich" not in sys.modules
if _WITHOUT_RICH:
    sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402
from structlog.typing import EventDict, Processor, WrappedLogger  # noqa: E402

if _WITHOUT_RICH:
    del sys.modules["rich"]

from reconciler.outlet import Outlet  # noqa: E402

MASK: Final = "***"
#: `text` or `json`: the form of the log where nothing else asks for one.
FORM_VARIABLE: Final = "RECONCILE_LOG"
_SECRET_WORDS: Final = frozenset(
    {"key", "keys", "apikey", "token", "tokens", "secret", "secrets", "password", "passwd", "passphrase"}
    | {"authorization", "credential", "credentials", "cookie"}
)
#: Names that contain such a word and count things (`max_tokens`), or name a place.
_HARMLESS: Final = re.compile(
    r"(max|context|prompt|completion|total|per|num|n)_?tokens?|tokens?_(per|max|total)", re.IGNORECASE
)
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+")
_DIM, _RED, _YELLOW, _RESET = "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


def configure(json: bool | None = None, level: str = "info", *, stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's logging for the whole program.

    `json` None = as RECONCILE_LOG says; without it JSON lines unless `stream` (stderr by default) is a terminal.
    `level` is a name of `logging`, in any case. Raises ValueError for an unknown level. A line never waits for its
    reader: a thread writes it to the stream's descriptor, and to nowhere if stderr is closed (None).
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}")
    stream = stream or sys.stderr
    terminal = stream is not None and stream.isatty()
    form = os.environ.get(FORM_VARIABLE, "")
    stated = {"text": True, "json": False}.get(form, terminal)
    human = stated if json is None else not json
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if human else "iso", utc=not human),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        spread if not human else without_data,
        redact,
    ]
    renderer: Processor = HumanRenderer(terminal) if human else structlog.processors.JSONRenderer()

    def dropped(count: int) -> str:
        """Return the line that stands for lines that could not be written."""
        event: EventDict = {"event": f"{count} log line{'s were' if count > 1 else ' was'} dropped"}
        for step in (*shared, renderer):
            event = step(None, "warning", event)  # type: ignore[assignment]
        return f"{event}\n"

    target = _outlet(stream, dropped)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(target),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)


def flush(timeout: float = 1.0) -> bool:
    """Wait until the lines logged so far are written, at most `timeout` seconds; return whether they are."""
    return _Open.outlet is None or _Open.outlet.drain(timeout)


atexit.register(flush)


class _Open:
    """The outlet in use; None where lines go straight into a stream without a descriptor (in memory)."""

    outlet: Outlet | None = None


def _outlet(stream: TextIO | None, dropped: Callable[[int], str]) -> TextIO:
    """Return what loggers write to for `stream`, and end the outlet that was in use before."""
    if _Open.outlet is not None:
        _Open.outlet.close()
        _Open.outlet = None
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY) if stream is None else stream.fileno()
    except OSError:
        return cast(TextIO, stream)
    _Open.outlet = Outlet(descriptor, dropped)
    return cast(TextIO, _Open.outlet)


class HumanRenderer:
    """One line per event: time, level if it is not info, event, `key=value` in the order they were given."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> str:
        """Return the line; a traceback follows on lines of its own."""
        time = self._paint(str(event.pop("timestamp", "")), _DIM)
        level = str(event.pop("level", "info"))
        trace = event.pop("exception", "") or event.pop("stack", "")
        parts = [time] if time else []
        if level not in ("info", "debug"):
            parts.append(self._paint(level, _YELLOW if level == "warning" else _RED))
        parts.append(_plain(str(event.pop("event", ""))))
        parts += [f"{self._paint(key + '=', _DIM)}{_value(value)}" for key, value in event.items()]
        return " ".join(parts) + (f"\n{trace}" if trace else "")

    def _paint(self, text: str, code: str) -> str:
        return f"{code}{text}{_RESET}" if self._colour and text else text


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask what must not be logged: values under secret-looking names, secret arguments in argv, bearer tokens."""
    return {key: _clean(key, value) for key, value in event.items()}


def spread(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put what a line has for programs only (`data`) beside its other fields."""
    event.update(event.pop("data", {}))
    return event


def without_data(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Leave out what a line has for programs only: people read it in words, or a line above."""
    event.pop("data", None)
    return event


def mask_argv(argv: Sequence[str]) -> list[str]:
    """Return the arguments with the values of secret-looking options masked.

    >>> mask_argv(["serve", "--api-key", "abc", "--token=xyz", "--max-tokens", "5"])
    ['serve', '--api-key', '***', '--token=***', '--max-tokens', '5']
    """
    masked: list[str] = []
    hide_next = False
    for argument in argv:
        name, equals, _ = argument.partition("=")
        if hide_next and not argument.startswith("--"):
            masked.append(MASK)
        elif equals and is_secret_name(name):
            masked.append(f"{name}={MASK}")
        else:
            masked.append(_BEARER.sub(rf"\1 {MASK}", argument))
        hide_next = argument.startswith("-") and not equals and is_secret_name(argument)
    return masked


def is_secret_name(name: str) -> bool:
    """Return whether a key, option or variable of this name is likely to hold a secret.

    >>> [is_secret_name(n) for n in ("api_key", "--hf-token", "AWS_SECRET", "apiKey", "max_tokens", "keyboard")]
    [True, True, True, True, False, False]
    """
    if _HARMLESS.search(name.replace("-", "_")):
        return False
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


def _clean(key: str, value: Any) -> Any:
    if is_secret_name(key):
        return MASK if value else value
    if isinstance(value, str):
        return _BEARER.sub(rf"\1 {MASK}", value)
    if isinstance(value, Mapping):
        return {k: _clean(str(k), v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            return mask_argv(value)
        return [_clean("", item) for item in value]
    return value


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return "[" + " ".join(_quoted(item) for item in value) + "]"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    plain = _plain(text)
    escaped = plain.replace('"', '\\"')
    return f'"{escaped}"' if not plain or " " in plain or "=" in plain or plain != text else plain


def _plain(text: str) -> str:
    """Write out control characters, so that no value can begin a line of its own."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
