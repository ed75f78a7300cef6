"""Writes constraints.txt anew: the newest versions that pip would install today, build tools included.

make constraints && git diff constraints.txt && make test
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
_EXTRAS: Final = ("llama", "dev")


def main() -> int:
    """Ask pip and write the file; the comment on top stays. Returns pip's exit status."""
    place = REPOSITORY / "constraints.txt"
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"], "pip"]
    for extra in _EXTRAS:
        wanted += project["project"]["optional-dependencies"][extra]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--report", "-", *wanted]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if answer.returncode != 0:
        return answer.returncode
    found = [item["metadata"] for item in json.loads(answer.stdout)["install"]]
    pins = sorted(f"{plain(item['name'])}=={item['version']}" for item in found)
    comment = [line for line in place.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    place.write_text("\n".join([*comment, *pins]) + "\n", encoding="utf-8")
    return 0


def plain(name: str) -> str:
    """Return a package's name the way indexes compare names.

    >>> plain("Ruamel_YAML")
    'ruamel-yaml'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
