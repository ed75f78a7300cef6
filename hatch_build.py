"""What the build adds to the package: the commit it was made from, which an installed package could not tell."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = "reconciler/built_from.txt"
#: What a wheel is made of: whatever else differs, or is missing, makes no other wheel.
_MADE_OF = ("reconciler", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the short commit, with `+dirty` where files differ, into `reconciler/built_from.txt`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file; outside a repository nothing, and what an sdist brought along stays."""
        root = Path(self.root)
        if version == "editable" or not (root / ".git").exists():
            return
        handle, name = tempfile.mkstemp(suffix=".txt")
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{_commit(root)}\n")
        build_data["force_include"][name] = TARGET
        self.made = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the draft."""
        if made := getattr(self, "made", None):
            Path(made).unlink(missing_ok=True)


def _commit(root: Path) -> str:
    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", *_MADE_OF)
    dirty = "+dirty" if changed else ""
    return git("rev-parse", "--short=7", "HEAD") + dirty
