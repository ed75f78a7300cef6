"""`reconcile stop`: end the loop, and the models with it."""

import time
from typing import Final

from reconciler.cli import options
from reconciler.cli.output import CliError, note, say

_POLL: Final = 0.1


def stop(
    *, no_wait: options.NoWait = False, timeout: options.Timeout = 120.0, state_dir: options.StateDir = None
) -> int:
    """Stop the running loop and its models.

    It finishes its step first. Waits until nobody answers any more.
    """
    from reconciler.cli.client import NotRunningError, find_loop
    from reconciler.store.paths import state_dir as resolve

    options.require_positive(timeout, "--timeout")
    loop = find_loop(resolve(state_dir, create=False))
    loop.call("POST", "/api/v1/stop")
    if no_wait:
        return 0
    note("stopping")
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            loop.status()
        except NotRunningError:
            say("stopped")
            return 0
        time.sleep(_POLL)
    raise CliError(f"the loop still answers after {timeout:g} s")
