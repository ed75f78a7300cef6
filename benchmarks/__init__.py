"""Measurements, each printed as a ratio against something measured in the same run. Run: `python -m benchmarks`.

None of them is a test: a figure above its goal is shown as such and fails nothing, because a shared machine is slow now
and then for reasons of its own.
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# The scripted engine and the writer of small models are the tests' own.
sys.path.insert(0, str(REPOSITORY / "tests"))
