"""From `package.module:Class` to an object: import it, see that it has what its role needs, construct it."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any

from .device import device_name
from .errors import EntryError
from .methods import METHODS, Method, signed
from .settings import Settings

#: Role -> the method it needs, and how that is written.
NEEDED: Mapping[str, tuple[str, str]] = {
    "chat": ("chat", "chat(self, messages, **options) -> str, or an iterator of str"),
    "vision": ("chat", "chat(self, messages, images, **options) -> str, or an iterator of str"),
    "completion": ("complete", "complete(self, prompt, **options) -> str, or an iterator of str"),
    "embedding": ("embed", "embed(self, texts) -> one vector for each"),
    "rerank": ("rerank", "rerank(self, query, documents) -> one score for each"),
    "asr": ("transcribe", "transcribe(self, audio, **options) -> str, or a dict with text"),
    "tts": ("speak", "speak(self, text, **options) -> bytes of a WAV file"),
    "image": ("image", "image(self, prompt, **options) -> bytes of a PNG file, or a list of them"),
    "classify": ("classify", "classify(self, inputs) -> one label or dict for each"),
}


def import_class(entry: str, cwd: str) -> type:
    """Import the class. `cwd` is searched first. Raises EntryError; what the module raises goes through."""
    module_name, _, class_name = entry.partition(":")
    top = module_name.partition(".")[0]
    if top in getattr(sys, "stdlib_module_names", sys.modules):
        raise EntryError(
            f"{top} is a module that Python itself brings: give yours another name than {top}.py"
        )
    sys.path.insert(0, cwd)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise EntryError(
                f"there is no module {module_name} in {cwd}, nor in the packages of {sys.executable}"
            ) from error
        raise
    # A module's own __getattr__ may raise, or make something of every name.
    found = getattr(module, class_name, None)
    if found is None:
        raise EntryError(f"{file_of(module)} has no class {class_name}")
    if not inspect.isclass(found):
        raise EntryError(f"{class_name} in {file_of(module)} is no class but a {type(found).__name__}")
    return found


def file_of(module: Any) -> str:
    """Return where a module was read from, for people."""
    return str(getattr(module, "__file__", None) or getattr(module, "__name__", "the module"))


def check_role(cls: type, role: str) -> None:
    """Raise EntryError unless the class has the method of its role, or `infer`, which may serve anything."""
    name, written = NEEDED[role]
    if callable(getattr(cls, name, None)) or callable(getattr(cls, "infer", None)):
        return
    where = file_of(sys.modules.get(cls.__module__))
    raise EntryError(f"{cls.__name__} in {where} has no method {name}, which role {role} needs: {written}")


def offered(settings: Settings) -> dict[str, Any]:
    """Return what a class may ask for when it is constructed."""
    return {
        "weights": settings.weights,
        "device": device_name(settings.device),
        "threads": settings.threads or os.cpu_count() or 1,
        "role": settings.role,
        "name": settings.name,
        "args": list(settings.args),
        "memory_limit": settings.memory_limit,
        "context_tokens": settings.context_tokens,
        "batch_max": settings.batch_max,
    }


def construct(cls: type, settings: Settings) -> Any:
    """Make the one object. Raises EntryError where it asks for what there is not."""
    method, keywords = Method(cls), offered(settings)
    if unknown := method.missing(keywords):
        known = ", ".join(keywords)
        raise EntryError(
            f"{cls.__name__}.__init__ asks for {unknown[0]}, which is not among {known}: give it a default"
        )
    if keywords["weights"] is None and "weights" in method.required:
        raise EntryError(f"{cls.__name__}.__init__ asks for weights, and the manifest states none")
    model = method(**method.choose(keywords))
    if not isinstance(model, cls):
        kind = type(model).__name__
        raise EntryError(f"{cls.__name__}() makes a {kind}: its __new__ has to return a {cls.__name__}")
    return model


def check_methods(model: Any) -> None:
    """Raise EntryError for a method that cannot be called with the options it takes, since it does not tell them."""
    for name in METHODS:
        function = getattr(model, name, None)
        if callable(function) and not signed(function):
            raise EntryError(
                f"{type(model).__name__}.{name} does not tell its parameters: write it with `def`"
            )


def check_state(cls: type, saves: str | None) -> None:
    """Raise EntryError for a class that saves what it cannot read, or the other way round, where it is to save."""
    names = ("save_state", "load_state")
    there = [name for name in names if callable(getattr(cls, name, None))]
    if saves is not None and len(there) == 1:
        [missing] = set(names) - set(there)
        raise EntryError(
            f"{cls.__name__} has {there[0]} and no {missing}: with `state.save` it needs both, or neither"
        )
