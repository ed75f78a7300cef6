"""Sizes that people write into comments: hints at what a program takes, where nothing else tells."""

import re
from collections.abc import Iterable
from typing import Final

from reconciler.manifest.files import shown
from reconciler.migrate.secret import veiled

_SIZE: Final = re.compile(
    r"(?<![\w.])(\d{1,5}(?:\.\d{1,2})?)\s?(GiB|GB|Gi|G|MiB|MB|Mi|M)(?:[bB]ytes?)?(?![\w/-])", re.IGNORECASE
)
_UNITS: Final = {"g": "GiB", "m": "MiB"}


def stated_size(comments: Iterable[str]) -> str | None:
    """Return the largest size that the comments state, as a manifest writes it, or None.

    What people call a GB is mostly a GiB; the larger reading does no harm, for what is measured counts later.

    >>> stated_size(["7B, 4.3GB file", "about 6 GB with 8k context"]), stated_size(["Q4_K_M, 32k"])
    ('6GiB', None)
    """
    found = [
        (float(m[1]) * (1024 if m[2][0] in "gG" else 1), m) for line in comments for m in _SIZE.finditer(line)
    ]
    found = [(mib, match) for mib, match in found if mib > 0]
    if not found:
        return None
    _, match = max(found, key=lambda item: item[0])
    return f"{match[1]}{_UNITS[match[2][0].lower()]}"


def kept(comments: Iterable[str]) -> list[str]:
    """Return comments as they may be repeated: without what looks like a secret, or no manifest may hold."""
    return [shown(veiled(line).replace("\t", " ")) for line in comments]
