"""`python -m reconciler.gateway.openapi --check` fails if the committed document differs; `--write` renews it."""

import json
import sys
from typing import Final

from reconciler.gateway.openapi.document import document
from reconciler.render.schemas import FOLDER

FILE: Final = FOLDER / "openapi.v1.json"


def text() -> str:
    """Return the document as it is committed."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Check or write; return the exit status."""
    if arguments == ["--write"]:
        FILE.write_text(text(), "utf-8")
        return 0
    if arguments == ["--check"]:
        if FILE.is_file() and FILE.read_text("utf-8") == text():
            return 0
        sys.stderr.write(
            f"schemas/{FILE.name} is not what the code says: run python -m reconciler.gateway.openapi --write\n"
        )
        return 1
    sys.stderr.write("usage: python -m reconciler.gateway.openapi --check | --write\n")
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
