"""`reconcile load MODEL`."""

from reconciler.cli import options


def load(
    model: options.Model,
    /,
    *,
    no_wait: options.NoWait = False,
    timeout: options.Timeout = 600.0,
    state_dir: options.StateDir = None,
) -> int:
    """Load a model now, as if a request wanted it.

    Waits until it is ready, refused or failed. It gets memory by the same rules as a request would.
    """
    from reconciler.cli.ask import ask
    from reconciler.cli.client import find_loop
    from reconciler.store.paths import state_dir as resolve

    options.require_positive(timeout, "--timeout")
    loop = find_loop(resolve(state_dir, create=False))
    ask(loop, model, "load", wait=not no_wait, timeout=timeout)
    return 0
