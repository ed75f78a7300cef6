"""The other servers that have an engine of their own; what their flags are called in a manifest the engine says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from reconciler.engines import registry
from reconciler.migrate.llama_swap.command import Split
from reconciler.migrate.llama_swap.flags import Converted
from reconciler.migrate.llama_swap.known import SERVERS, Server
from reconciler.migrate.llama_swap.paths import placed

_NUMBERS: Final = frozenset({"context.max_tokens", "context.slots", "device.threads"})
#: Flags for the tokens of one request; others of this key say it for all of them, or a share of the memory.
_LENGTHS: Final = frozenset({"--max-model-len", "--context-length", "--max-kv-size", "--max-batch-tokens"})
_TASKS: Final = {
    **dict.fromkeys(("embed", "embedding", "pooling"), "embedding"),
    **dict.fromkeys(("score", "rerank", "reward"), "rerank"),
    **dict.fromkeys(("classify", "classification"), "classify"),
    **dict.fromkeys(("generate", "auto"), "chat"),
    "transcription": "asr",
}


def recognised(command: Split) -> str:
    """Return the engine that a command starts a server of, or ""."""
    found = _found(command)
    return found[0].engine if found else ""


def convert(command: Split, base: Path) -> Converted:
    """Return what a command of one of these servers becomes."""
    found = _found(command)
    assert found is not None, "the command was recognised"
    server, words = found
    made = Converted({"engine": server.engine})
    bare = "/" not in command.program
    if command.python and command.at:
        made.refused = "it is started through another program, which has no key beside `python`"
    elif command.python and not bare:
        made.keys["python"] = placed(command.program, base)
    elif not command.python and (command.at or not bare):
        program = command.program if bare else placed(command.program, base)
        made.keys["command"] = [*command.words[: command.at], program]
    if server.role != "chat":
        made.keys["role"] = server.role
    _flags(server, words, made, base)
    weights = made.keys.get("weights")
    if made.refused:
        return made
    if weights is None:
        made.refused = "nothing in it says which weights it serves"
    elif not _is_path(weights, base):
        made.refused = f"{weights} is a name on a hub, and the engine {server.engine} takes a path"
    else:
        made.keys["weights"] = placed(weights, base)
    return made


def _found(command: Split) -> tuple[Server, tuple[str, ...]] | None:
    """Return the server and the words behind its name and verb."""
    server, words = SERVERS.get(command.name), command.args
    if command.python and words[:1] == ("-m",):
        module = words[1:2]
        server = next((s for s in SERVERS.values() if module and module[0] in s.modules), None)
        words = words[2:]
        if module and module[0] in ("mlx_lm", "mlx_vlm") and words[:1] == ("server",):
            words = words[1:]
    elif server and server.verb:
        server, words = (server, words[1:]) if words[:1] == (server.verb,) else (None, ())
    return (server, words) if server else None


def _flags(server: Server, words: Sequence[str], made: Converted, base: Path) -> None:
    owned = getattr(registry.get(server.engine), "owned", {})
    place = 0
    if words and not words[0].startswith("-"):
        made.keys["weights"] = words[0]
        place = 1
    while place < len(words):
        flag, equals, value = words[place].partition("=")
        following = words[place + 1] if place + 1 < len(words) else "-"
        took = 1 if equals or following.startswith("-") else 2
        value = value if equals else following if took == 2 else ""
        key = owned.get(flag)
        if key is None:
            made.args += words[place : place + took]
        else:
            _owned(flag, key, value, made, base)
        place += took


def _owned(flag: str, key: str, value: str, made: Converted, base: Path) -> None:
    """Take a flag that has a key, is reconcile's to choose, or has no counterpart."""
    outer, _, inner = key.partition(".")
    into: dict[str, Any] = made.keys.setdefault(outer, {}) if inner and " " not in key else made.keys
    if key in ("", "port", "aliases"):
        return
    if key in _NUMBERS and value.isdecimal() and int(value) and (flag in _LENGTHS or inner != "max_tokens"):
        into[inner] = int(value)
    elif key == "context.cache_type" and value not in ("", "auto") and not value.isdecimal():
        into[inner] = value
    elif key == "weights":
        made.keys["weights"] = value
    elif key == "draft" and not value.startswith("{"):
        made.keys["draft"] = placed(value, base)
    elif flag == "--is-embedding":
        made.keys["role"] = "embedding"
    elif key == "role" and value in _TASKS:
        made.keys["role"] = _TASKS[value]
    elif not (key == "context.cache_type" and value == "auto"):
        advice = key if " " in key else f"`{key}` decides it in a manifest"
        made.lost.append((f"{flag} {value}".rstrip() + " is left out", advice))
    if inner and " " not in key and not made.keys[outer]:
        del made.keys[outer]


def _is_path(weights: str, base: Path) -> bool:
    """Tell a path from a name on a hub; looks whether it is there."""
    return weights.startswith(("/", "./", "../", "~", "${env:")) or (base / weights).exists()
