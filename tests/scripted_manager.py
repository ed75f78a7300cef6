"""`reconcile` that finds one engine more: the files of tests/scripted_engines. Arguments are those of `reconcile`."""

import sys
from pathlib import Path

import reconciler.engines
from reconciler.cli import main

if __name__ == "__main__":
    reconciler.engines.__path__.append(str(Path(__file__).with_name("scripted_engines")))
    sys.exit(main())
