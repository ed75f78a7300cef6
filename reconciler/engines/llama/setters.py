"""How a flag of the embedded llama.cpp server sets a field of `xllamacpp.CommonParams`. Standard library only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reconciler.engines.llama import values as llama_values
from reconciler.memory.regular import read_regular

#: Bytes of a chat template; the longest known ones have some 20 KiB.
_LONGEST_TEMPLATE: Final = 1 << 20

#: `xllamacpp` and its `CommonParams`: extension types without stubs.
Library = Any
Params = Any


@dataclass(frozen=True, slots=True)
class Flag:
    """One option with all its spellings. `apply` gets the value, or "" for a switch."""

    names: tuple[str, ...]
    apply: Callable[[Params, Library, str], None]
    switch: bool = False
    #: Raises `ValueError` for a value that `apply` would refuse; needs no library.
    check: Callable[[str], object] = str


def text(field: str) -> Callable[[Params, Library, str], None]:
    """Return a setter of a text."""
    return lambda params, _, value: _set(params, field, value)


def number(field: str) -> Callable[[Params, Library, str], None]:
    """Return a setter of a whole number."""
    return lambda params, _, value: _set(params, field, llama_values.whole_number(value))


def real(field: str) -> Callable[[Params, Library, str], None]:
    """Return a setter of a number with a fraction."""
    return lambda params, _, value: _set(params, field, float(value))


def switch(field: str, setting: bool) -> Callable[[Params, Library, str], None]:
    """Return a setter that sets a switch, whatever its value."""
    return lambda params, _, __: _set(params, field, setting)


def choice(field: str, enum: str, members: Mapping[str, str]) -> Callable[[Params, Library, str], None]:
    """Return a setter of a member of the library's `enum`."""

    def put(params: Params, library: Library, value: str) -> None:
        _set(params, field, getattr(getattr(library, enum), llama_values.one_of(members, value)))

    return put


def integer(names: tuple[str, ...], field: str) -> Flag:
    """Return a flag whose value is a whole number."""
    return Flag(names, number(field), check=llama_values.whole_number)


def named(names: tuple[str, ...], field: str, enum: str, members: Mapping[str, str]) -> Flag:
    """Return a flag whose value is one of `members`."""
    return Flag(names, choice(field, enum, members), check=llama_values.among(members))


def seed(params: Params, _: Library, value: str) -> None:
    """Set the seed."""
    params.sampling.seed = llama_values.seed_number(value)


def _set(params: Params, field: str, value: object) -> None:
    """Set a field, or a field of a field (`model.path`)."""
    *path, last = field.split(".")
    for step in path:
        params = getattr(params, step)
    setattr(params, last, value)


def host(params: Params, _: Library, value: str) -> None:
    """Set the address to listen at."""
    if hasattr(params, "hostnames"):
        params.hostnames = [value]
    else:  # wheels before autumn 2026
        params.hostname = value


def load_mode(params: Params, library: Library, value: str) -> None:
    """Set how weights come into memory."""
    name = llama_values.one_of(llama_values.LOAD_MODES, value)
    if hasattr(params, "load_mode"):
        params.load_mode = getattr(library.llama_load_mode, name)
    else:  # wheels before autumn 2026
        params.use_mmap = value in ("auto", "mmap", "mmap+mlock")
        params.use_mlock = "mlock" in value


def gpu_layers(params: Params, _: Library, value: str) -> None:
    """Set how many layers go to a GPU."""
    params.n_gpu_layers = llama_values.layers(value)


def draft_gpu_layers(params: Params, _: Library, value: str) -> None:
    """Set how many layers of the draft model go to a GPU."""
    params.speculative.draft.n_gpu_layers = llama_values.layers(value)


def rerank(params: Params, library: Library, _: str) -> None:
    """Have scores computed."""
    params.embedding = True
    params.pooling_type = library.llama_pooling_type.LLAMA_POOLING_TYPE_RANK


def slot_save_path(params: Params, _: Library, value: str) -> None:
    """Set the folder for saved states."""
    # The server joins folder and file name as strings.
    params.slot_save_path = value.rstrip("/") + "/"


def chat_template_file(params: Params, _: Library, value: str) -> None:
    """Set the chat template to what a file holds. Raises `OSError`."""
    text = read_regular(Path(value), _LONGEST_TEMPLATE + 1)
    if len(text) > _LONGEST_TEMPLATE:
        raise ValueError(f"has more than {_LONGEST_TEMPLATE >> 20} MiB")
    params.chat_template = text.decode()


def api_key(params: Params, _: Library, value: str) -> None:
    """Add keys."""
    params.api_keys = [*params.api_keys, *value.split(",")]


def timeout(params: Params, _: Library, value: str) -> None:
    """Set how long a connection may be idle."""
    params.timeout_read = params.timeout_write = llama_values.whole_number(value)


def lora(params: Params, library: Library, value: str) -> None:
    """Add adapters that count in full: `FILE,FILE`."""
    _add_adapters(params, library, [(file, 1.0) for file in value.split(",") if file])


def scaled_lora(params: Params, library: Library, value: str) -> None:
    """Add adapters with their scales: `FILE:SCALE,FILE:SCALE`."""
    _add_adapters(params, library, llama_values.scaled_files(value))


def _add_adapters(params: Params, library: Library, adapters: Sequence[tuple[str, float]]) -> None:
    added = [library.CommonAdapterLoraInfo(file, scale) for file, scale in adapters]
    params.lora_adapters = [*params.lora_adapters, *added]


def speculation(params: Params, library: Library, value: str) -> None:
    """Set how tokens are guessed ahead."""
    names = llama_values.speculations(value)
    params.speculative.types = [getattr(library.common_speculative_type, name) for name in names]


def fit(params: Params, _: Library, value: str) -> None:
    """Set whether it fits itself to free memory."""
    params.fit_params = llama_values.one_of(llama_values.FITS, value) == "on"


def alias(params: Params, _: Library, value: str) -> None:
    """Set the names it goes by."""
    params.model_alias = set(value.split(","))
