"""What a Modelfile sets, as keys and flags of llama.cpp; and what Ollama's variables set for all models."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.migrate.draft import ModelDraft

#: A parameter -> the flag of llama.cpp's server that makes it a default for all requests.
_FLAGS: Final = {
    "temperature": "--temp",
    "top_k": "--top-k",
    "top_p": "--top-p",
    "min_p": "--min-p",
    "seed": "--seed",
    "num_predict": "-n",
    "num_batch": "-b",
    "num_gpu": "-ngl",
    "main_gpu": "-mg",
}
#: Without `num_ctx` Ollama gives so many tokens, unless there is much memory.
CONTEXT: Final = 4096
KEEP_ALIVE: Final = "5m"


@dataclass(slots=True)
class Lost:
    """What has no counterpart, with what it was set to."""

    parameters: dict[str, object] = field(default_factory=dict)


def put(draft: ModelDraft, parameters: Mapping[str, object]) -> Lost:
    """Put the parameters of a Modelfile into a model of llama.cpp; `num_ctx` has been seen to."""
    lost, args = Lost(), []
    for name, value in sorted(parameters.items()):
        act = _ACTIONS.get(name)
        if name == "num_ctx":
            continue
        if name in _FLAGS and isinstance(value, int | float) and not isinstance(value, bool):
            args += [_FLAGS[name], f"{value:g}" if isinstance(value, float) else str(value)]
        elif act is not None and act(draft, value):
            continue
        else:
            lost.parameters[name] = value
    if args:
        draft.keys["args"] = args
    return lost


def _threads(draft: ModelDraft, value: object) -> bool:
    if type(value) is int and value > 0:
        draft.keys["device"] = {"threads": value}
    return type(value) is int


def _mode(mode: str, when: bool) -> Callable[[ModelDraft, object], bool]:
    def act(draft: ModelDraft, value: object) -> bool:
        if value is when:
            draft.keys["memory"] = {"mode": mode}
        return isinstance(value, bool)

    return act


_ACTIONS: Final[Mapping[str, Callable[[ModelDraft, object], bool]]] = {
    "num_thread": _threads,
    "use_mmap": _mode("none", when=False),
    "use_mlock": _mode("mlock", when=True),
}


def for_all(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what Ollama's variables set for all models, as `defaults` of a manifest."""
    keep = environ.get("OLLAMA_KEEP_ALIVE", "")
    defaults: dict[str, Any] = (
        {"residency": "transient"} if _at_once(keep) else {"idle_ttl": _keep_alive(keep)}
    )
    context: dict[str, Any] = {}
    if (slots := environ.get("OLLAMA_NUM_PARALLEL", "")).isdecimal() and int(slots) > 1:
        context["slots"] = int(slots)
    if kind := environ.get("OLLAMA_KV_CACHE_TYPE"):
        context["cache_type"] = kind
    return {**defaults, **({"context": context} if context else {})}


def _at_once(text: str) -> bool:
    """Tell whether a model is to be unloaded right after its use: no time at all, in whatever unit."""
    return bool(re.fullmatch(r"0+[a-z]*", text))


def _keep_alive(text: str) -> str:
    """Return how long a model stays without requests: a number is seconds, a negative one for ever.

    >>> _keep_alive(""), _keep_alive("-1"), _keep_alive("300"), _keep_alive("24h"), _keep_alive("1h30m")
    ('5m', 'never', '300s', '24h', '1h30m')
    """
    if text.startswith("-"):
        return "never"
    if text.isdecimal():
        return f"{int(text)}s"
    return text if re.fullmatch(r"(?:\d+h)?(?:\d+m)?(?:\d+s)?", text) and text else KEEP_ALIVE


def context(stored: int | None, environ: Mapping[str, str], own: int | None) -> tuple[int, str]:
    """Return the tokens a model gets, and who says so: its Modelfile, a variable, or Ollama's default.

    `own` is what the model was trained for, which none may exceed.
    """
    stated = environ.get("OLLAMA_CONTEXT_LENGTH", "")
    if stored is not None:
        tokens, who = stored, "num_ctx"
    elif stated.isdecimal() and int(stated):
        tokens, who = int(stated), "OLLAMA_CONTEXT_LENGTH"
    else:
        tokens, who = CONTEXT, ""
    return (own, who) if own is not None and own < tokens else (tokens, who)
