"""`reconcile status`: what the running loop knows."""

from reconciler.cli import options
from reconciler.cli.output import colour, say, say_json


def status(*, json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Show what the running loop knows and does.

    The manifest in force, the memory account, the action in flight, every model with its reason, and what is not well.
    """
    from reconciler.cli.client import find_loop
    from reconciler.render.status_text import status_text
    from reconciler.store.paths import state_dir as resolve

    document = find_loop(resolve(state_dir, create=False)).status()
    if json:
        say_json(document)
    else:
        say(status_text(document, colour=colour()))
    return 0
