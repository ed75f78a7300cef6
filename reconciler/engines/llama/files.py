"""The further files of a llama.cpp model, by keys of the manifest: projector, adapters, draft model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines.base import Finding
from reconciler.engines.llama import words as llama_words

LORA: Final = "--lora"
SCALED_LORA: Final = "--lora-scaled"


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of the manifest, and the flags and variables that say the same to a server of any age."""

    key: str
    flags: tuple[str, ...]
    variables: tuple[str, ...] = ()


PROJECTOR: Final = _Key("projector", ("-mm", "--mmproj"), ("LLAMA_ARG_MMPROJ",))
DRAFT: Final = _Key(
    "draft",
    ("-md", "--model-draft", "--spec-draft-model"),
    ("LLAMA_ARG_SPEC_DRAFT_MODEL", "LLAMA_ARG_MODEL_DRAFT"),
)
_ADAPTERS: Final = _Key("adapters", (LORA, SCALED_LORA))
#: Also a projector, which a server would fetch.
_FETCHED: Final = _Key("projector", ("-mmu", "--mmproj-url"), ("LLAMA_ARG_MMPROJ_URL",))
_SERVER: Final = "llama-server"


def flags(spec: LaunchSpec) -> list[str]:
    """Return the flags for the files, in spellings that builds of all ages take.

    `--lora-scaled FILE:SCALE` is the exception: until December 2025 it was `--lora-scaled FILE SCALE`. Adapters that
    count in full do without it.
    """
    result = ["--mmproj", spec.projector] if spec.projector else []
    for adapter in spec.adapters:
        if adapter.scale == 1:
            result += [LORA, adapter.path]
        else:
            result += [SCALED_LORA, f"{adapter.path}:{adapter.scale:g}"]
    return [*result, "-md", spec.draft] if spec.draft else result


def optional_flags(spec: LaunchSpec) -> list[str]:
    """Return what newer builds need to be told besides: they load a draft model, and do not use it unless told how."""
    return ["--spec-type", "draft-simple"] if spec.draft else []


def optional_env(spec: LaunchSpec) -> dict[str, str]:
    """Return the same for a `llama-server` of any age."""
    return {"LLAMA_ARG_SPEC_TYPE": "draft-simple"} if spec.draft else {}


def check(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield what is wrong with the files as settings; reads none."""
    for key, stated in (
        (PROJECTOR, spec.projector is not None),
        (_ADAPTERS, bool(spec.adapters)),
        (DRAFT, spec.draft is not None),
    ):
        if stated:
            yield from _twice(spec, key)
    for adapter in spec.adapters:
        marks = "," if adapter.scale == 1 else ",:"
        if found := next((mark for mark in marks if mark in adapter.path), None):
            message = f"llama.cpp takes the {found!r} in {adapter.path} for a separator"
            yield Finding(("adapters",), message, "rename the file or its folder")
    if spec.role is Role.VISION and not _sees(spec):
        message = "a vision model needs its projector, or it refuses every picture"
        yield Finding(("projector",), message, "projector: path/to/mmproj.gguf")


def _twice(spec: LaunchSpec, key: _Key) -> Iterator[Finding]:
    for path, given in _given(spec, key):
        yield Finding(
            path, f"{given} cannot be given here", f"it is stated as `{key.key}:`; leave one of them out"
        )


def _given(spec: LaunchSpec, key: _Key) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the places where a server is told the same without our key."""
    for place, words in (("command", llama_words.server_words(spec.command)), ("args", spec.args)):
        for name, _ in llama_words.pairs(words):
            if name in key.flags:
                yield (place,), name
    before: Mapping[str, str] = llama_words.assignments(spec.command)
    yield from ((("command",), name) for name in key.variables if name in before)
    yield from ((("env", name), name) for name, _ in spec.env if name in key.variables)


def _sees(spec: LaunchSpec) -> bool:
    """Say whether the server has a projector, as far as can be told: a script of the user's may give it one."""
    if spec.projector is not None or any((*_given(spec, PROJECTOR), *_given(spec, _FETCHED))):
        return True
    return bool(spec.command) and not any(_SERVER in PurePath(word).name for word in spec.command)
