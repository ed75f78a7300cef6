"""Everything else that a model says: names, times, limits, environment, and what has no counterpart."""

import re
from collections.abc import Callable
from typing import Final

from reconciler.manifest.diagnostics import looks_secret, quoted
from reconciler.migrate.finding import Kind, shown
from reconciler.migrate.llama_swap import macros
from reconciler.migrate.llama_swap.job import Job
from reconciler.migrate.llama_swap.model import say_taken
from reconciler.migrate.llama_swap.values import Section

KNOWN: Final = frozenset(
    {
        *("cmd", "cmdStop", "proxy", "aliases", "env", "checkEndpoint", "ttl", "unloadTimeout", "unlisted"),
        *("useModelName", "name", "description", "concurrencyLimit", "filters", "macros", "metadata"),
        *("sendLoadingState", "timeouts", "capabilities", "compat"),
    }
)
_FILTERS: Final = frozenset({"stripParams", "strip_params", "setParams", "setParamsByID", "setParamsByMatch"})
_TIMEOUTS: Final = frozenset(
    {"connect", "keepalive", "responseHeader", "tlsHandshake", "expectContinue", "idleConn"}
)
_CAPABILITIES: Final = frozenset({"in", "out", "tools", "reranker", "context"})
_NAMES: Final = ("--served-model-name", "--alias", "-a", "--model-name")
_PARAMETERS: Final = (
    "clients send their own; llama-server takes defaults as flags (--temp, --top-p, --chat-template-kwargs)"
)
#: Of a command that stops a server: it does what reconcile does by itself.
_PLAIN_STOP: Final = re.compile(
    r"(?:/bin/|/usr/bin/)?kill(?:\s+-(?:s\s*)?(?:TERM|SIGTERM|15|INT|SIGINT|2))?\s+\$\{PID\}"
)


def convert(job: Job) -> None:
    """Put all keys of a model but its command."""
    job.section.dead(KNOWN | {"healthCheckTimeout", "logRequests"})
    for act in _ACTIONS:
        act(job)


def _overruled(job: Job) -> None:
    for key in ("healthCheckTimeout", "logRequests"):
        if key in job.section.node.items:
            what = (
                "llama-swap reads it and puts the global value in its place"
                if key[0] == "h"
                else "llama-swap ignores it"
            )
            job.say(
                Kind.DEAD,
                key,
                what,
                "timeouts.load is what a manifest has for each model" if key[0] == "h" else "",
            )


def _names(job: Job) -> None:
    aliases = [s.value for s in job.section.ids("aliases")]
    filters = job.section.section("filters")
    by_id = filters.section("setParamsByID") if filters else None
    aliases += [macros.expand(name, job.macros) for name in (by_id.node.items if by_id else ())]
    own = [alias for alias in dict.fromkeys(aliases) if alias != job.name]
    if own:
        job.draft.keys["aliases"] = own
    for key in ("name", "description"):
        if text := job.expanded(key):
            line = " ".join(text.split())
            job.draft.inside.append(f"{key}: {line}")
            job.say(Kind.LOST, key, f"{shown(line)} is kept as a comment: /v1/models lists names alone")
    if job.section.switch("unlisted", False):
        job.say(Kind.LOST, "unlisted", "every model is listed in /v1/models")


def _path(job: Job) -> None:
    if job.name == "comfyui_auto":
        advice = "with `engine: comfyui` pictures that are being made count as use, too"
        job.at_model(Kind.DIFFERS, "what was /comfyui/ is /upstream/comfyui_auto/ here", advice)


def _idle(job: Job) -> None:
    stated = job.section.number("ttl")
    seconds = job.common.ttl if stated in (None, -1) else stated or 0
    if stated is not None and stated < -1:
        job.say(Kind.ERROR, "ttl", f"{stated} is no time: -1 is the global one, 0 is never")
    elif seconds > 0:
        job.draft.keys["idle_ttl"] = span(seconds)


def span(seconds: int) -> str:
    """Return seconds as a manifest's duration.

    >>> span(300), span(90), span(7200)
    ('5m', '90s', '2h')
    """
    if seconds % 3600 == 0:
        return f"{seconds // 3600}h"
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def _limits(job: Job) -> None:
    if limit := job.section.number("concurrencyLimit"):
        job.draft.keys["concurrency"] = limit
        what = f"{limit} at the engine at once, as before; the next {64} wait in line instead of getting 429"
        job.say(Kind.DIFFERS, "concurrencyLimit", what, "queue.max says how many may wait")
    if stop := job.section.number("unloadTimeout"):
        job.draft.nested("timeouts")["stop"] = span(stop)
    timeouts = job.section.section("timeouts")
    if timeouts is None:
        return
    timeouts.dead(_TIMEOUTS)
    if first := timeouts.number("responseHeader"):
        job.draft.nested("timeouts")["first_byte"] = span(first)
    for key in sorted(_TIMEOUTS - {"responseHeader"}):
        if timeouts.has(key):
            timeouts.say(Kind.LOST, key, "nothing sets it: engines are on this machine", "leave it out")


def _health(job: Job) -> None:
    path = job.expanded("checkEndpoint", "/health")
    plain = job.draft.keys.get("engine") == "command"
    if path == "none":
        if plain:
            what = "no check whether it is ready: reconcile needs a path that answers 2xx once it is"
            job.say(Kind.TODO, "checkEndpoint", what, "write `health: /PATH`; until then /health is asked")
        return
    if not path.startswith("/"):
        job.say(Kind.ERROR, "checkEndpoint", f"{quoted(path)} is no path", "write /health, or none")
    elif plain and path != "/health":
        job.draft.keys["health"] = path


def _environment(job: Job) -> None:
    env: dict[str, str] = {}
    for item in job.section.scalars("env"):
        name, equals, value = item.value.partition("=")
        if not equals or not name:
            what = f"{shown(name)} is no NAME=value, and sets nothing"
            job.report.add(
                Kind.DEAD, item.mark, job.section.call("env"), what, "write NAME=value, or delete it"
            )
            continue
        value = macros.ours(value)
        if looks_secret(name) and value and not value.startswith("${env:"):
            value = job.common.secrets.variable(name, value)
            say_taken(job, "env", [value[6:-1]])
        env[name] = value
    if env:
        job.draft.keys["env"] = env


def _upstream_name(job: Job) -> None:
    name = job.section.text("useModelName")
    if not name or job.draft.keys.get("engine", "llama.cpp") != "command":
        return  # the engines know what their servers want to be asked for
    words = job.draft.keys["command"]
    for place, word in enumerate(words):
        if word == name and place and words[place - 1] in _NAMES:
            words[place] = "${model}"
            job.say(
                Kind.NOTE, "useModelName", f"the server is told to go by {job.name} instead of {quoted(name)}"
            )
            return
    what = f"requests reach the server with {quoted(job.name)} in `model`, not {quoted(name)}"
    job.say(
        Kind.LOST,
        "useModelName",
        what,
        f"have the server accept {job.name} (--served-model-name or the like)",
    )


def _stop(job: Job) -> None:
    text = job.expanded("cmdStop", pid=True).strip()
    if not text or _PLAIN_STOP.fullmatch(text):
        return
    words = text.split()
    container = words[0] in ("docker", "podman")
    what = f"{shown(text)} is not run: reconcile sends SIGTERM, and SIGKILL after timeouts.stop, to all it started"
    advice = ""
    if container:
        advice = f"run it in the foreground with --rm and --init: {words[0]} passes SIGTERM on"
    elif "pkill" in text or "killall" in text:
        advice = "nothing need be done: it would also have ended servers of others with that name"
    job.say(Kind.LOST, "cmdStop", what, advice)


def _filters(job: Job) -> None:
    filters = job.section.section("filters")
    if filters is None:
        return
    filters.dead(_FILTERS)
    for key in ("stripParams", "strip_params"):
        if text := filters.text(key):
            filters.say(Kind.LOST, key, f"{shown(text)} stay in requests", "tell clients not to send them")
    for key in ("setParams", "setParamsByMatch"):
        if filters.has(key):
            filters.say(Kind.LOST, key, f"{_shown(filters, key)} not put into requests", _PARAMETERS)
    for name, each in filters.sections("setParamsByID"):
        called = macros.expand(name, job.macros)
        what = f"{quoted(called)} is an alias, and nothing is put into its requests"
        if called == job.name:
            what = "nothing is put into requests for the model"
        if filters.section("setParamsByID"):
            each.report.add(Kind.LOST, each.node.mark, each.path, what, _PARAMETERS)


def _shown(section: Section, key: str) -> str:
    inner = section.entry(key).value
    names = sorted(getattr(inner, "items", {})) if not isinstance(getattr(inner, "items", None), list) else []
    return f"{', '.join(names)}:" if names else "they are"


def _described(job: Job) -> None:
    if job.section.has("metadata"):
        job.say(Kind.LOST, "metadata", "it is not shown in /v1/models")
    capabilities = job.section.section("capabilities")
    if capabilities is not None:
        capabilities.dead(_CAPABILITIES)
        _role(job, capabilities)
        if (
            capabilities.has("context")
            and "context" not in job.draft.keys
            and job.draft.keys.get("engine") == "command"
        ):
            tokens = macros.expand(capabilities.text("context"), job.macros)
            if tokens.isdecimal() and int(tokens):
                job.draft.keys["context"] = {"max_tokens": int(tokens)}
    compat = job.section.section("compat")
    if compat is not None:
        compat.dead(frozenset({"ignoreWebsockets"}))
        if compat.switch("ignoreWebsockets", False):
            compat.say(
                Kind.DIFFERS,
                "ignoreWebsockets",
                "a WebSocket keeps a model from giving way here until 60 s after its last message",
            )
    if (
        job.section.has("sendLoadingState")
        and job.section.switch("sendLoadingState", False) != job.common.loading_state
    ):
        job.say(Kind.LOST, "sendLoadingState", "it holds for all models or none", "gateway.comments")


def _role(job: Job, capabilities: Section) -> None:
    """Take the role from what it accepts and gives, where the command did not say."""
    given = {s.value for s in capabilities.scalars("in")}
    out = {s.value for s in capabilities.scalars("out")}
    if job.draft.keys.get("engine") != "command" or "role" in job.draft.keys:
        return
    role = ""
    if capabilities.switch("reranker", False):
        role = "rerank"
    elif "audio" in out or "image" in out:
        role = "tts" if "audio" in out else "image"
    elif "audio" in given and out == {"text"}:
        role = "asr"
    elif "image" in given:
        role = "vision"
    if role:
        job.draft.keys["role"] = role


_ACTIONS: Final[tuple[Callable[[Job], None], ...]] = (
    _overruled,
    _names,
    _path,
    _idle,
    _limits,
    _health,
    _environment,
    _upstream_name,
    _stop,
    _filters,
    _described,
)
