"""`reconcile` that suspects a model to hang after $SILENCE seconds instead of half a minute. Arguments are its own."""

import os
import sys
from typing import Any

from reconciler.cli import main
from reconciler.loop import liveness, suspicion


def lose_patience(silence: float) -> None:
    """Have this process suspect a model after so many seconds, and look at it often."""
    judged: Any = suspicion
    judged.SILENCE = judged.STOPPED = silence
    judged.QUIET = min(judged.QUIET, silence)
    looks: Any = liveness
    looks.PACE, looks.CALM_PACE, looks.AGAIN = 0.1, 0.5, 0.1
    looks.STREAMING = min(looks.STREAMING, silence)


if __name__ == "__main__":
    lose_patience(float(os.environ["SILENCE"]))
    sys.exit(main())
