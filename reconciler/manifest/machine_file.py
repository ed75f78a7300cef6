"""A machine described in a file, for plans made elsewhere: its sizes, what is in memory, and who waits.

With it a dry run on a laptop, or in a pull request, says what would happen on the desk it is meant for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from reconciler.manifest import engine_fields as e
from reconciler.manifest import fields as f
from reconciler.manifest.data import Reader
from reconciler.manifest.explain import explain, place
from reconciler.manifest.files import explain_os_error, read_regular, shown
from reconciler.manifest.parts import Part, written
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Map, Mark, Node, SourceFile
from reconciler.manifest.yaml_source import parse
from reconciler.manifest.yaml_text import decode

API_VERSION: Final = "reconciler/v1"


class InMemory(Part):
    """A model that is in memory."""

    idle: f.DurationOrZero = written(
        "0s", description="Seconds, or a duration, since its last request ended."
    )
    requests: f.CountOrZero = Field(default=0, description="Requests it is serving.")


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
    memory: f.Size = Field(description="Its memory.")
    in_use: f.Size = written("0", description="What the system and all programs but the models hold.")
    gpu: e.SizeOrNone = written("none", description="What of the memory may be the GPU's at most.")
    sizes: dict[str, f.Size] = Field(
        default_factory=dict,
        description="What models take once loaded whose files are not here and whose manifest does not say so.",
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
    for key in ("sizes", "loaded", "waiting"):
        entries = data.get(key)
        for name in sorted(entries) if isinstance(entries, dict) else ():
            if name not in models:
                message = f'the manifest has no model "{name}"'
                problems.add(place(root, (key, name)), "unknown-model", message, _known(models))
    problems.raise_any()
    assert machine is not None, "a machine was refused without a reason"
    return machine


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
        problems.add_file(file, "wrong-type", "it is no description of a machine", "see docs/cli.md")
    return Map(Mark(file, 0, 0))


def _known(models: Mapping[str, object]) -> str:
    return f"there are {', '.join(sorted(models))}" if models else "it has none"
