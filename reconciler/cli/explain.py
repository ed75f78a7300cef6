"""`reconcile explain MODEL`: everything about one model."""

from reconciler.cli import options
from reconciler.cli.output import colour, say, say_json


def explain(
    model: options.Model, /, *, json: options.Json = False, state_dir: options.StateDir = None
) -> int:
    """Say why one model is loaded or not.

    What it holds or needs, who uses it, what would let it in, and what went wrong last.
    """
    from reconciler.cli.client import find_loop
    from reconciler.cli.names import find_model
    from reconciler.render import explain_text
    from reconciler.store.paths import state_dir as resolve

    document = find_loop(resolve(state_dir, create=False)).status()
    found = find_model(document, model)
    if json:
        say_json({"formatVersion": document["formatVersion"], **found})
    else:
        say(explain_text(document, found["name"], colour=colour()))
    return 0
