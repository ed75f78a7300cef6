"""The words of a llama.cpp command line: which are flags, and which are the values of others."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final

from reconciler.engines.llama.flags import FLAGS, canonical

#: Programs that start another one, which follows their own flags.
_WRAPPERS: Final = frozenset(
    {
        "arch",
        "bash",
        "caffeinate",
        "chrt",
        "env",
        "ionice",
        "nice",
        "nohup",
        "numactl",
        "prlimit",
        "setsid",
        "sh",
        "stdbuf",
        "systemd-run",
        "taskset",
        "time",
    }
)
_PYTHON: Final = re.compile(r"python[0-9.]*")
_SERVER: Final = "llama-server"
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
#: Flags of `llama-server` with a value of any text: also one that begins with a dash is no flag.
_TEXTS: Final = """
    --api-key-file --api-prefix --chat-template-kwargs --control-vector --control-vector-scaled --cors-headers
    --cors-methods --cors-origins --grammar --grammar-file --json-schema --json-schema-file --log-file
    --lookup-cache-dynamic --lookup-cache-static --lora-scaled --media-path --mmproj-url --model-draft
    --override-kv --override-tensor --path --reasoning-budget-message --reverse-prompt --samplers
    --spec-draft-model --ssl-cert-file --ssl-key-file --tags --ui-config --ui-config-file --webui-config
    --webui-config-file -j -jf -lcd -lcs -md -mmu -ot -r
"""
#: Until August 2025 this one had no value.
_FLASH: Final = frozenset({"-fa", "--flash-attn"})
#: Switches of `llama-server` that the embedded one does not have: a word after them is not their value.
_SWITCHES: Final = """
    --agent --cache-prompt --check-tensors --cont-batching --context-shift --cpu-moe --direct-io --escape
    --ignore-eos --kv-offload --log-disable --mlock --mmap --no-cont-batching --no-context-shift --no-direct-io
    --no-escape --no-host --no-mmap --no-mmproj --no-mmproj-offload --no-op-offload --no-perf --no-prefill-assistant
    --op-offload --perf --prefill-assistant --special --spm-infill --ui --verbose --webui
    -cb -cmoe -dio -e -kvo -ndio -nocb -sp -v
"""


_TEXT_FLAGS: Final = frozenset(_TEXTS.split())
_SWITCH_FLAGS: Final = frozenset(_SWITCHES.split())


def server_words(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words after the server itself, which `llama-server` reads as its own.

    >>> server_words(["taskset", "-c", "0-3", "llama-server", "-ub", "64"])
    ('-ub', '64')
    """
    return tuple(command[_server_at(command) + 1 :])


def assignments(command: Sequence[str]) -> Mapping[str, str]:
    """Return the variables that are set before the server: `[env, NAME=VALUE, llama-server]`."""
    before = command[: _server_at(command)]
    return {found[1]: found[2] for word in before if (found := _ASSIGNMENT.fullmatch(word))}


def pairs(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return each flag under its usual spelling, with its value, or "" if it has none.

    What follows a flag of unknown kind is its value unless it looks like a flag itself.
    """
    return tuple(_pairs(words))


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        name = canonical(name)
        if equals:
            yield name, value
        elif i < len(words) and _takes(name, words[i]):
            yield name, words[i]
            i += 1
        else:
            yield name, ""


def _takes(name: str, following: str) -> bool:
    """Say whether `following` is the value of the flag `name`."""
    if name in _SWITCH_FLAGS:
        return False
    if name in _FLASH:
        return following == "-1" or not following.startswith("-")
    flag = FLAGS.get(name)
    if flag is not None:
        return not flag.switch
    return name in _TEXT_FLAGS or not following.startswith("-") or following[1:2].isdecimal()


def _server_at(command: Sequence[str]) -> int:
    """Return the place of the server's own name: the first word, but for a wrapper before it."""
    for i, word in enumerate(command):
        if _SERVER in PurePath(word).name:
            return i
    program = PurePath(command[0]).name if command else ""
    if _PYTHON.fullmatch(program) and "-m" in command[1:-1]:
        return command.index("-m", 1) + 1
    if program in _WRAPPERS or _PYTHON.fullmatch(program):
        for i in range(1, len(command)):
            before, word = command[i - 1], command[i]
            after_flag = before.startswith("-") and "=" not in before
            if not (after_flag or word.startswith("-") or _ASSIGNMENT.fullmatch(word)):
                return i
    return 0
