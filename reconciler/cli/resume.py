"""`reconcile resume`."""

from reconciler.cli import options


def resume(*, state_dir: options.StateDir = None) -> int:
    """Leave safe mode: every model is loaded again.

    After the machine went down three times in a row while models were loaded, or memory was short, only pinned models
    are loaded for a while. Say this once what brought it down is mended.
    """
    from reconciler.cli.client import find_loop
    from reconciler.cli.output import say
    from reconciler.store.paths import state_dir as resolve

    answer = find_loop(resolve(state_dir, create=False)).call("POST", "/api/v1/resume")
    say("safe mode is over: every model is loaded again" if answer["safe_mode"] else "it is not in safe mode")
    return 0
