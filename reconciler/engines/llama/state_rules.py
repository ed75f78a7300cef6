"""When llama.cpp can keep the state of its slots, and on which settings a file of it depends."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import placeholders
from reconciler.engines.llama import server as llama_server
from reconciler.engines.llama import words as llama_words
from reconciler.engines.llama.args import Settings, SettingsError, read_settings
from reconciler.engines.llama.switches import FALSE
from reconciler.memory.gguf import Header, WeightsError, find_weights
from reconciler.memory.gguf.shape import ShapeUnknown, read_shape

#: From this version on the embedded server keeps with a slot the places it can go back to; without them a window or a
#: recurrent state is restored in vain: b11434 says that it restored 612 tokens, and computes them all again.
_WITH_PLACES: Final = (2026, 10, 11549)
#: Settings that decide what is in the file, or which tokens a text becomes.
_DECIDE: Final = (
    "tokens",
    "slots",
    "unified",
    "key_type",
    "value_type",
    "flash",
    "full_windows",
    "projector",
    "draft",
    "loras",
)
#: Beginnings of further flags that change what a token's keys and values are.
_FURTHER: Final = (
    "--rope",
    "--yarn",
    "--override-kv",
    "--lora",
    "--control-vector",
    "--grp-attn",
    "-gan",
    "-gaw",
    "-ctxcp",
    "--ctx-checkpoints",
    "--swa-checkpoints",
)
_FURTHER_ENV: Final = ("LLAMA_ARG_ROPE", "LLAMA_ARG_YARN", "LLAMA_ARG_GRP", "LLAMA_ARG_CTX_CHECKPOINTS")
_VECTORS: Final = (Role.EMBEDDING, Role.RERANK)


def depends_on(spec: LaunchSpec, settings: Settings) -> dict[str, object]:
    """Return all that must be equal for a slot's file to be read, or to mean the same."""
    known = asdict(settings)
    words = llama_words.pairs([*llama_words.server_words(spec.command), *spec.args])
    return {
        **{name: known[name] for name in _DECIDE},
        "adapters": [[adapter.path, adapter.scale] for adapter in spec.adapters],
        "flags": [[name, value] for name, value in words if name.startswith(_FURTHER)],
        "env": [[name, value] for name, value in sorted(spec.env) if name.startswith(_FURTHER_ENV)],
    }


def why_not(spec: LaunchSpec) -> str | None:
    """Return the first reason why no state is kept with these settings, or None. Reads files."""
    program = llama_server.find(spec)
    embedded = program is not None and program.embedded
    try:
        settings = read_settings(spec, spec.args, embedded=embedded)
        reasons = _reasons(spec, settings, embedded=embedded)
        return next((reason for reason in reasons if reason), None)
    except (SettingsError, WeightsError) as error:
        return str(error)


def goes_back(spec: LaunchSpec) -> bool:
    """Say whether a model of these settings can go on from certain places of a text only. Reads files."""
    spec = placeholders.filled(spec, 0)
    program = llama_server.find(spec)
    try:
        settings = read_settings(spec, spec.args, embedded=program is not None and program.embedded)
        return bool(_going_back(find_weights(Path(spec.weights or "")).header, settings))
    except (SettingsError, WeightsError):
        return True


def _reasons(spec: LaunchSpec, settings: Settings, *, embedded: bool) -> Iterator[str | None]:
    if spec.role in _VECTORS or settings.vectors:
        yield "it computes vectors: it keeps nothing from one request to the next"
    yield from _flags(spec)
    if settings.projector is not None:
        yield "with a projector llama.cpp refuses to save a slot (not supported by multimodal)"
    yield _architecture(spec, settings, embedded=embedded)


def _flags(spec: LaunchSpec) -> Iterator[str]:
    env = dict(spec.env)
    words = llama_words.pairs([*llama_words.server_words(spec.command), *spec.args])
    given = dict(words)
    if "--slot-save-path" in given:
        yield "--slot-save-path is stated: its folder is chosen by reconcile"
    if (
        "--no-slots" in given
        or env.get("LLAMA_ARG_ENDPOINT_SLOTS") in FALSE
        or "LLAMA_ARG_NO_ENDPOINT_SLOTS" in env
    ):
        yield "--no-slots is stated: /slots tells which of them hold a conversation"
    if "--no-cache-prompt" in given or "LLAMA_ARG_NO_CACHE_PROMPT" in env:
        yield "--no-cache-prompt is stated: each prompt is computed anew"
    if given.get("--sleep-idle-seconds", "-1") not in ("-1", "0"):
        yield "--sleep-idle-seconds is stated: a server that sleeps by itself has thrown its state away"


def _architecture(spec: LaunchSpec, settings: Settings, *, embedded: bool) -> str | None:
    """Say whether layers with windows or with a recurrent state would be restored in vain."""
    kind = _going_back(find_weights(Path(spec.weights or "")).header, settings)
    if not kind:
        return None
    if embedded and settings.checkpoints > 0 and _version(llama_server.embedded_version()) >= _WITH_PLACES:
        return None
    if embedded and settings.checkpoints == 0:
        return f"it has {kind}, and --ctx-checkpoints 0 leaves no place to go on from"
    instead = "; with --swa-full in `args` they are (more memory)" if "windows" in kind else ""
    return f"it has {kind}: llama-server says that they are restored, and computes all anew{instead}"


def _going_back(header: Header, settings: Settings) -> str:
    """Return what in a model keeps less than all tokens, so that going on needs more than keys and values; or ""."""
    try:
        layers = read_shape(header).layers
    except ShapeUnknown:
        return ""
    if any(layer.state for layer in layers):
        return "recurrent layers"
    windows = any(layer.window is not None for layer in layers)
    return "sliding windows" if windows and not settings.full_windows else ""


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version.

    >>> _version("2026.10.11549") >= (2026, 9, 1)
    True
    """
    return tuple(int(number) for number in re.findall(r"\d+", text))
