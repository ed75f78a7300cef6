"""`python -m reconciler.gateway.openapi --check` fails if the committed document differs; `--write` renews it."""

import json
import sys
from typing import Final

from reconciler.committed import keep
from reconciler.gateway.openapi.document import document
from reconciler.render.schemas import FOLDER

FILE: Final = FOLDER / "openapi.v1.json"


def text() -> str:
    """Return the document as it is committed."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Check or write; return the exit status."""
    return keep({FILE: text()}, "reconciler.gateway.openapi", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
