"""Writing a model's memory into its manifest: in the right file, proved to change nothing else, in one step."""

import difflib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from reconciler.manifest.applied import Applied
from reconciler.manifest.diagnostics import ManifestError
from reconciler.manifest.edit_text import EditError, set_memory
from reconciler.manifest.files import manifest_paths, read_content, read_regular, shown
from reconciler.manifest.load import apply_content
from reconciler.manifest.sizes import parse_size

__all__ = ["Edit", "EditError", "find_edit", "plan_edit", "set_memory", "write_edit"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One file of a manifest before and after, not written yet."""

    path: Path
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty if there is none."""
        name = shown(self.path)
        # Only line feeds part lines here: a carriage return stays at the end of its line.
        old, new = (data.decode("utf-8").removesuffix("\n").split("\n") for data in (self.before, self.after))
        lines = difflib.unified_diff(old, new, name, name, n=1, lineterm="")
        return "\n".join(line.rstrip("\r\n") for line in lines)


def find_edit(path: Path, model: str, values: Mapping[str, str]) -> Edit:
    """Return the edit that sets `memory` of `model` in the manifest at `path`, a file or a directory. Blocks.

    It is not proved that nothing else changes. Raises EditError, OSError.
    """
    for file in manifest_paths(path):
        before = read_regular(file)
        try:
            after = set_memory(before.decode("utf-8"), shown(file), model, values).encode("utf-8")
        except KeyError:
            continue
        return Edit(file, before, after)
    raise EditError(f"{shown(path)}: no file of it holds the model {model}")


def plan_edit(path: Path, model: str, values: Mapping[str, str], environ: Mapping[str, str]) -> Edit:
    """Return the edit that sets `memory` of `model`. Blocks.

    The result is read again as a manifest: it must mean the same as before but for these values. Raises EditError,
    ManifestError, OSError.
    """
    edit = find_edit(path, model, values)
    _prove(path, edit, model, values, environ)
    return edit


def write_edit(edit: Edit) -> None:
    """Put the new text in place of the old in one step, with the same mode and owner. Blocks.

    A file that is a symbolic link stays one: what it points to is replaced. Raises EditError, OSError.
    """
    target = edit.path.resolve(strict=True)
    kept = target.stat()
    descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(edit.after)
            file.flush()
            os.fsync(file.fileno())
            if (os.fstat(file.fileno()).st_uid, os.fstat(file.fileno()).st_gid) != (kept.st_uid, kept.st_gid):
                os.fchown(file.fileno(), kept.st_uid, kept.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(kept.st_mode))
        _unchanged(edit, target)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


def _unchanged(edit: Edit, target: Path) -> None:
    if read_regular(target) != edit.before:
        raise EditError(f"{shown(edit.path)}: it was changed meanwhile; nothing was written")


def _prove(path: Path, edit: Edit, model: str, values: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Raise EditError unless the edit changes exactly these values."""
    content = read_content(path)
    old = apply_content(content, environ=environ)
    files = tuple(
        replace(file, data=edit.after) if file.directory / file.entry == edit.path.absolute() else file
        for file in content.files
    )
    try:
        new = apply_content(replace(content, files=files), environ=environ)
    except ManifestError as error:
        raise EditError(
            f"{shown(edit.path)}: with the new value the manifest would be refused: {error}"
        ) from error
    if _meaning(new) != _meaning(_with_memory(old, model, values)):
        raise EditError(f"{shown(edit.path)}: {model} is written in a way that cannot be edited safely")


def _meaning(applied: Applied) -> tuple[object, ...]:
    return (
        applied.manifest,
        dict(applied.launches),
        dict(applied.routes),
        dict(applied.limits),
        applied.gateway,
        applied.ports,
    )


def _with_memory(applied: Applied, model: str, values: Mapping[str, str]) -> Applied:
    sizes = {key: parse_size(value) for key, value in values.items()}
    models = tuple(
        replace(spec, steady=sizes.get("steady", spec.steady), peak=sizes.get("peak", spec.peak))
        if spec.name == model
        else spec
        for spec in applied.manifest.models
    )
    return replace(applied, manifest=replace(applied.manifest, models=models))
