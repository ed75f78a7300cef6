"""`reconcile` that has no patience. Arguments are its own.

$PACE says how many seconds a minute is between two loads in advance, and $VAIN_AFTER after how many such a load counts
as in vain although it is still there.
"""

import os
import sys
from typing import Any

from reconciler.cli import main
from reconciler.core import prewarm, prewarms

if __name__ == "__main__":
    pace: Any = prewarm
    pace.PACE = pace.RECENT = float(os.environ["PACE"])
    vain: Any = prewarms
    vain.VAIN_AFTER = float(os.environ["VAIN_AFTER"])
    sys.exit(main())
