"""Reading a manifest for a verb: refusals become one message and exit code 1."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.output import CliError

if TYPE_CHECKING:
    from reconciler.manifest.applied import Applied


class ManifestRefusedError(CliError):
    """The manifest has errors; the message is all of them, each with its place."""

    prefix = ""


def read_manifest(path: Path, rev: str | None) -> "Applied":
    """Return the validated manifest at `path`, or as it was in git revision `rev`.

    Raises ManifestRefusedError with every diagnostic.
    """
    from reconciler.manifest.diagnostics import ManifestError
    from reconciler.manifest.load import load_manifest

    try:
        return load_manifest(path, rev=rev, environ=os.environ)
    except ManifestError as error:
        raise ManifestRefusedError(error.render()) from error
