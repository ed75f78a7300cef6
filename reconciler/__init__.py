"""Keeps the AI model servers of one machine the way a YAML manifest says."""

import sys

__version__ = "0.1.0"

# httpx has a command line of its own, which brings rich, pygments and click into memory: 40 ms of each start.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
