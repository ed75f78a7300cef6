"""A machine described in a file, for plans made elsewhere: its sizes and speeds, what is in memory, and who waits.

With it a dry run on a laptop, or in a pull request, says what would happen on the desk it is meant for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, PlainValidator, ValidationError

from reconciler.manifest import fields as f
from reconciler.manifest.data import Data, Reader
from reconciler.manifest.explain import explain, place
from reconciler.manifest.files import explain_os_error, read_regular, shown
from reconciler.manifest.parts import Part, written
from reconciler.manifest.problems import Problems
from reconciler.manifest.sizes import format_size
from reconciler.manifest.speed_part import DiskRate, SpeedPart
from reconciler.manifest.tree import Map, Mark, Node, SourceFile
from reconciler.manifest.yaml_source import parse
from reconciler.manifest.yaml_text import decode

#: What a file of this kind begins with, for whoever wrote another.
BEGINNING: Final = "begin it with the two keys `apiVersion: reconciler/v1` and `memory: 128GiB`"
#: Nothing that is described here is smaller: a size below it lacks its unit.
_LEAST: Final = 1 << 20


def _size(value: object) -> int:
    """Return bytes; refused is what can only be a number without its unit."""
    found = f.size(value)
    if found >= _LEAST:
        return found
    hint = f"did you mean {value}GiB?" if found and str(value).isdigit() else "write it like 128GiB or 512MiB"
    raise f.refuse("size", f"{format_size(found)} is no size of a machine or a model", hint)


def _size_or_0(value: object) -> int:
    return _size(value) if f.size(value) else 0


def _size_or_none(value: object) -> int | None:
    return None if value == "none" else _size(value)


Size = Annotated[int, PlainValidator(_size)]
SizeOr0 = Annotated[int, PlainValidator(_size_or_0)]
SizeOrNone = Annotated[int | None, PlainValidator(_size_or_none)]


class InMemory(Part):
    """A model that is in memory."""

    idle: f.DurationOrZero = written(
        "0s", description="Seconds, or a duration, since its last request ended."
    )
    requests: f.CountOrZero = Field(default=0, description="Requests it is serving.")
    asleep: bool = Field(default=False, description="It gave its memory back and keeps its process.")
    holds: SizeOrNone = written(
        "none", description="What it holds now; by default what it takes once loaded."
    )


class Waiting(Part):
    """Requests that wait for a model."""

    requests: f.Count = Field(default=1, description="How many.")
    oldest: f.DurationOrZero = written(
        "0s", description="Seconds, or a duration, that the first of them has waited."
    )


class DescribedMachine(Part):
    """A machine as it is described, not as it was looked at."""

    api_version: Literal["reconciler/v1"] = Field(
        alias="apiVersion", description="The version of this format: reconciler/v1."
    )
    memory: Size = Field(description="Its memory.")
    in_use: SizeOr0 = written("0", description="What the system and all programs but the models hold.")
    gpu: SizeOrNone = written("none", description="What of the memory may be the GPU's at most.")
    sizes: dict[str, Size] = Field(
        default_factory=dict,
        description="What models take once loaded, where the manifest does not say so.",
    )
    disk: DiskRate = written("3GB", description="Bytes read in a second while a model is loaded.")
    speeds: dict[str, SpeedPart] = Field(
        default_factory=dict, description="How long things take with models, by name; `simulate` reads it."
    )
    loaded: dict[str, InMemory] = Field(default_factory=dict, description="The models in memory, by name.")
    waiting: dict[str, Waiting] = Field(
        default_factory=dict, description="The models that requests wait for, by name."
    )


def load_machine(path: Path, models: Mapping[str, object], environ: Mapping[str, str]) -> DescribedMachine:
    """Return the machine in the file at `path`; `models` are those of the manifest. Blocks.

    Raises ManifestError with every fault, each with its place.
    """
    problems = Problems()
    root = _root(path, problems)
    problems.raise_any()
    data = Reader(environ, problems).root(root)
    machine: DescribedMachine | None = None
    try:
        machine = DescribedMachine.model_validate(data)
    except ValidationError as error:
        explain(error, root, problems, DescribedMachine)
    _check_names(data, root, models, problems)
    if machine is not None:
        _check(machine, root, problems)
    problems.raise_any()
    assert machine is not None, "a machine was refused without a reason"
    return machine


def _check_names(
    data: Mapping[str, Data], root: Map, models: Mapping[str, object], problems: Problems
) -> None:
    for key in ("sizes", "speeds", "loaded", "waiting"):
        entries = data.get(key)
        for name in sorted(entries) if isinstance(entries, dict) else ():
            if name not in models:
                message = f'the manifest has no model "{name}"'
                problems.add(place(root, (key, name)), "unknown-model", message, _known(models))


def _check(machine: DescribedMachine, root: Map, problems: Problems) -> None:
    """Note what cannot be on one machine."""
    for key, size in (("in_use", machine.in_use), ("gpu", machine.gpu)):
        if size is not None and size > machine.memory:
            message = f"{format_size(size)} is more than the {format_size(machine.memory)} of memory"
            problems.add(place(root, (key,)), "contradiction", message, "a part of it is meant: write it so")
    for name, there in sorted(machine.loaded.items()):
        where = ("loaded", name)
        if there.asleep and there.requests:
            message = f'"{name}" cannot serve requests asleep'
            problems.add(place(root, (*where, "requests")), "contradiction", message, "write one of the two")
        elif there.asleep and there.holds is None:
            message = f'it is not said what "{name}" holds asleep'
            problems.add(place(root, where), "missing-key", message, "add holds, for example holds: 2GiB")


def _root(path: Path, problems: Problems) -> Map:
    """Return the mapping that the file is; what is wrong with it is noted."""
    file = SourceFile(shown(path), path.absolute().parent)
    node: Node | None = None
    try:
        text = decode(read_regular(path), file, problems)
    except OSError as error:
        problems.add_file(file, "unreadable", explain_os_error(error))
    else:
        node = parse(text, file, problems) if text is not None else None
    if isinstance(node, Map):
        problems.know(node)
        return node
    if not len(problems):
        what = "it is empty" if node is None else "expected a mapping, not a list or a single value"
        problems.add_file(file, "wrong-type", f"it is no description of a machine: {what}", BEGINNING)
    return Map(Mark(file, 0, 0))


def _known(models: Mapping[str, object]) -> str:
    return f"there are {', '.join(sorted(models))}" if models else "it has none"
