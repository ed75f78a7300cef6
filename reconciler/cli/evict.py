"""`reconcile evict MODEL`."""

from reconciler.cli import options


def evict(
    model: options.Model,
    /,
    *,
    no_wait: options.NoWait = False,
    timeout: options.Timeout = 600.0,
    state_dir: options.StateDir = None,
) -> int:
    """Unload a model once its requests are done.

    Waits until it is gone or refused: a pinned model stays. The next request for it loads it again.
    """
    from reconciler.cli.ask import ask
    from reconciler.cli.client import find_loop
    from reconciler.store.paths import state_dir as resolve

    options.require_positive(timeout, "--timeout")
    loop = find_loop(resolve(state_dir, create=False))
    ask(loop, model, "evict", wait=not no_wait, timeout=timeout)
    return 0
