"""`reconcile forget MODEL`."""

from reconciler.cli import options


def forget(model: options.Model, /, *, state_dir: options.StateDir = None) -> int:
    """Forget what was measured of a model, and its failures.

    A model is charged the most it ever held with its settings. After an accident - a runaway, a bad build - that may
    be far too much. From now on its estimate counts again, and what it is measured to hold next.
    """
    from reconciler.cli.client import find_loop
    from reconciler.cli.output import say
    from reconciler.store.paths import state_dir as resolve

    loop = find_loop(resolve(state_dir, create=False))
    name = loop.act(model, "forget").get("model", model)
    say(f"what was measured of {name} is forgotten")
    return 0
