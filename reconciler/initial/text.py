"""A first manifest as text: sorted, without times or readings that change, so that git shows what is new."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from reconciler.core.launch import Role
from reconciler.core.words import size as size_text
from reconciler.initial.choose import Choice, Chosen
from reconciler.initial.found import LeftOut
from reconciler.render.init_shapes import MOST_LEFT_OUT

#: What no YAML reader takes for anything but text.
_PLAIN: Final = re.compile(r"[A-Za-z./][\w./+@=,-]*")
_OTHERS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})

_HEAD: Final = """\
# What should run on this machine. Written by `reconcile init`; it is yours now: edit, save, look.
#   reconcile validate {path}     is it right?
#   reconcile --dry-run {path}    what would be done?
#   reconcile {path}              do it, and watch this file
apiVersion: reconciler/v1

machine:
  memory: auto               # {memory}
  reserve: 10%               # of it kept for the system

gateway:
  listen: 127.0.0.1:8080     # the one address clients use; OpenAI's API under /v1

defaults:
  residency: on_demand       # loaded by the first request; warm = at start; pinned = never gives way
  # idle_ttl: 10m            # unloaded after that long without a request
"""
_NOTHING: Final = """
# No model was found. Put GGUF files into a folder and run `reconcile init FOLDER --force`;
# {folder} is searched without being named.
# By hand a model looks like this:
#
#   chat:
#     weights: ../models/chat.gguf     # relative to this file
#     context: {{max_tokens: 8192}}      # prompt and answer together
models: {{}}
"""
_NOTHING_FITS: Final = """
# Models were found, and none can be served here as things are: see below.
models: {}
"""


def manifest_text(chosen: Chosen, left_out: Iterable[LeftOut], folder: Path, shown: str) -> str:
    """Return the manifest for a file in `folder`, an absolute path; `shown` is what people call that folder."""
    left = tuple(left_out)
    head = _HEAD.format(path=shown, memory=_memory(chosen))
    if chosen.choices:
        body = "\nmodels:\n" + "\n".join(_entry(choice, folder) for choice in chosen.choices)
    else:
        body = _NOTHING_FITS if left else _NOTHING.format(folder=f"{folder.parent / 'models'}")
    return head + body + "".join(_left_out(left, folder))


def _memory(chosen: Chosen) -> str:
    if chosen.total is None or chosen.budget is None:
        return "it could not be read here: state a size"
    return f"{size_text(chosen.total)} here, of which models may use {size_text(chosen.budget)}"


def _entry(choice: Choice, folder: Path) -> str:
    model, lines = choice.model, [f"  # {_facts(choice)}"]
    lines.append(f"  {scalar(choice.name)}:")
    lines.append(f"    engine: {choice.engine}")
    lines.append(f"    weights: {scalar(relative(model.path, folder))}")
    if model.projector is not None:
        lines.append(f"    projector: {scalar(relative(model.projector, folder))}")
    lines.append(f"    role: {model.role.value}")
    lines.append(f"    priority: {choice.priority}")
    if choice.pinned:
        lines.append("    residency: pinned")
    if choice.tokens is not None:
        lines.append(f"    context: {{max_tokens: {choice.tokens}}}")
    return "\n".join(lines) + "\n"


def _facts(choice: Choice) -> str:
    takes = f"{size_text(choice.model.size)} on disk, {size_text(choice.steady)} once loaded"
    length, tokens = choice.model.length, choice.tokens
    if tokens is None or length is None:
        return takes
    made = "its full length" if length == tokens else f"it was made for {length} tokens"
    return f"{takes} with {tokens} tokens of context; {made}" if choice.model.role is not Role.ASR else takes


def _left_out(left: tuple[LeftOut, ...], folder: Path) -> Iterator[str]:
    if left:
        yield "\n# Left out:\n"
    for one in left[:MOST_LEFT_OUT]:
        yield f"#   {printable(relative(one.path, folder))}: {printable(one.why)}\n"
    if len(left) > MOST_LEFT_OUT:
        yield f"#   and {len(left) - MOST_LEFT_OUT} more: `reconcile init --json` names them\n"


def relative(path: Path, folder: Path) -> str:
    """Return the path as a manifest in `folder` names it: relative within the project around it, else whole."""
    if path.is_relative_to(folder.parent) and folder.parent != Path(folder.anchor):
        return os.path.relpath(path, folder)
    return os.fspath(path)


def scalar(text: str) -> str:
    """Return text as a YAML scalar that is read as this text.

    >>> scalar("a b"), scalar("null"), scalar("/x/${env:A}")
    ('"a b"', '"null"', '"/x/$${env:A}"')
    """
    text = text.replace("${env:", "$${env:")
    if _PLAIN.fullmatch(text) and text.casefold() not in _OTHERS and not re.fullmatch(r"[.\d+e-]+", text):
        return text
    return json.dumps(text, ensure_ascii=False)


def printable(text: str) -> str:
    """Return text that stays within a comment's line, whatever a file is called."""
    return "".join(c if c.isprintable() else "?" for c in text)
